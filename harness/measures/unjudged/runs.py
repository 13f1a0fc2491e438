"""Queries of two runs as cases, pairs worth judging, and condensed lists (method, section 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.core.errors import EvidenceError
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.measures.unjudged.bounds import Bounding, Case


def bounding(measure: str, qrels: Qrels) -> Bounding:
    """Read a measure, on the scale of all the judgements.

    Raises:
        UnknownName: the measure is unknown, or has no bounds here.
    """
    return Bounding.of(measure, {g for docs in qrels.grades.values() for g in docs.values()})


def cases(
    control: Run, candidate: Run, qrels: Qrels, query_ids: Sequence[str], depth: int | None
) -> Iterator[tuple[str, Case]]:
    """Yield both lists of each query, at most ``depth`` documents of each arm.

    Raises:
        EvidenceError: a query was not asked, or has no judgement.
    """
    rows = control.positions, candidate.positions
    for query_id in query_ids:
        if query_id not in qrels.grades or any(query_id not in found for found in rows):
            raise EvidenceError(
                f"query {query_id} was not judged, or not asked of both {control.arm} and"
                f" {candidate.arm}; score and compare the arms once more"
            )
        yield (
            query_id,
            Case(
                _shown(control, rows[0][query_id], depth),
                _shown(candidate, rows[1][query_id], depth),
                qrels.grades[query_id],
            ),
        )


def narrowing(
    control: Run, candidate: Run, qrels: Qrels, measure: str, query_ids: Sequence[str]
) -> Mapping[tuple[str, str], float]:
    """How much narrower the bounds of the mean difference get by judging one pair more.

    By query and document, the mean over the lowest and the highest grade, for pairs that
    narrow them at all. That a document is worth judging for what it moves, and not for where it
    ranks, is of Carterette, Allan and Sitaraman (SIGIR 2006).
    """
    wanted = bounding(measure, qrels)
    ends = wanted.scale[0], wanted.scale[-1]
    found: dict[tuple[str, str], float] = {}
    for query_id, case in cases(control, candidate, qrels, query_ids, wanted.asked.cutoff):
        width = wanted.difference(case).width
        if width <= ROUNDING:
            continue
        for doc_id in wanted.unjudged(case):
            left = [wanted.difference(case.with_judged(doc_id, grade)).width for grade in ends]
            narrower = width - sum(left) / len(left)
            if narrower > ROUNDING:
                found[query_id, doc_id] = narrower / len(query_ids)
    return found


ROUNDING = 1e-12
"""Narrowing up to this is rounding."""


def _shown(run: Run, row: int, depth: int | None) -> tuple[str, ...]:
    low, high = int(run.offsets[row]), int(run.offsets[row + 1])
    high = high if depth is None else min(high, low + depth)
    return tuple(run.vocabulary[doc] for doc in run.docs[low:high].tolist())


def condense(run: Run, qrels: Qrels) -> Run:
    """Take unjudged documents out of each ranking; the rest close up (Sakai 2007).

    Its score is the value of a measure without unjudged documents; compared with the plain value,
    it shows their weight. A grade below 0 is a judgement here, as it is for ``Judged``, though not
    for ``judged_only`` of trec_eval's code. Queries without any judgement keep their rankings: no
    measure of quality looks at them.
    """
    keep = np.ones(len(run.docs), dtype=bool)
    docs = run.docs.tolist()
    for row, query_id in enumerate(run.query_ids):
        judged = qrels.grades.get(query_id)
        if judged is None:
            continue
        low, high = int(run.offsets[row]), int(run.offsets[row + 1])
        keep[low:high] = [run.vocabulary[doc] in judged for doc in docs[low:high]]
    kept = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
    return replace(
        run,
        offsets=kept[run.offsets].astype(np.int64),
        docs=run.docs[keep],
        score=run.score[keep],
        raw_score=run.raw_score[keep],
    )
