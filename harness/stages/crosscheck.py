"""Kernels held against other people's code: a comparator that is wrong must not be believed.

The kernels of ``harness.agreement`` and ``harness.measures`` work on arrays. Here a few queries are
counted once more, the slow way: sets for Jaccard, scipy for Kendall's tau-b, over ranks of the
shared documents alone, and ir-measures for quality.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from harness.agreement.classes import Class
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement
from harness.core.qrels import Qrels
from harness.core.run import Run, Status
from harness.core.scores import Scores
from harness.measures.quality import oracle

QUERIES = 40
"""Counted twice; a wrong formula shows in far fewer."""
SAME = 1e-9
EMPTY = {
    (False, False): Class.BOTH_EMPTY,
    (False, True): Class.SERVING_EMPTY,
    (True, False): Class.SHADOW_EMPTY,
}
"""Class by whether control and candidate show anything."""


def crosscheck(
    control: Run, candidate: Run, agreement: Agreement, *, depths: Sequence[int], seed: int
) -> None:
    """Count Jaccard and tau of some queries again, and of all where an arm shows nothing.

    Raises:
        EvidenceError: a value is another, or stands where there is none, or the reverse; or an
            empty answer is not of the class of its own.
    """
    queries = agreement.query_ids
    drawn = random.Random(seed).sample(queries, min(QUERIES, len(queries)))
    drawn += sorted(_check_empty(control, candidate, agreement) - set(drawn))
    names = [f"Jaccard@{depth}" for depth in depths]
    values = {name: agreement.scores[name].by_query for name in (*names, "tau")}
    for query_id in drawn:
        both = [_shown(run, query_id) for run in (control, candidate)]
        left, right = both if None not in both else (None, None)
        expected = {f"Jaccard@{depth}": _jaccard(left, right, depth) for depth in depths}
        expected["tau"] = _tau(left, right, max(depths))
        for name, wanted in expected.items():
            found = values[name].get(query_id)
            if (found is None) != (wanted is None) or (
                found is not None and wanted is not None and abs(found - wanted) > SAME
            ):
                raise EvidenceError(
                    f"{name} of {control.arm} and {candidate.arm} for query {query_id} is"
                    f" {found}, but counted by hand it is {wanted}; the comparison cannot be"
                    " believed: mend harness.agreement"
                )


def _check_empty(control: Run, candidate: Run, agreement: Agreement) -> set[str]:
    """Give the queries that both arms answered, one of them with nothing, and hold their class."""
    shown = [dict(zip(run.query_ids, run.lengths, strict=True)) for run in (control, candidate)]
    answered = [
        {q for q, how in zip(run.query_ids, run.status, strict=True) if how == Status.ANSWERED}
        for run in (control, candidate)
    ]
    found = set()
    for query_id, kind in zip(agreement.query_ids, agreement.classes, strict=True):
        if not all(query_id in of for of in answered):
            continue
        some = (bool(shown[0][query_id]), bool(shown[1][query_id]))
        wanted = EMPTY.get(some, kind)
        if kind != wanted or (kind in EMPTY.values() and some not in EMPTY):
            raise EvidenceError(
                f"query {query_id} is of class {kind}, but by hand"
                f" {f'it is {wanted}' if some in EMPTY else 'neither arm is empty'};"
                " the comparison cannot be believed: mend harness.agreement"
            )
        if some in EMPTY:
            found.add(query_id)
    return found


def crosscheck_quality(run: Run, qrels: Qrels, scores: Mapping[str, Scores], *, seed: int) -> None:
    """Score some answered queries of a run again, with ir-measures.

    ``scores`` are those of all its queries, by measure name.

    Raises:
        EvidenceError: a value is another, or stands where there is none, or the reverse.
    """
    answered = np.flatnonzero(run.status == Status.ANSWERED).tolist()
    drawn = random.Random(seed).sample(answered, min(QUERIES, len(answered)))
    queries = [run.query_ids[row] for row in drawn]
    if not queries:
        return
    for name, wanted in oracle(run, qrels, tuple(scores), queries).items():
        found, exact = scores[name].by_query, wanted.by_query
        for query_id in queries:
            ours, theirs = found.get(query_id), exact.get(query_id)
            if (ours is None) != (theirs is None) or (
                ours is not None and theirs is not None and abs(ours - theirs) > SAME
            ):
                raise EvidenceError(
                    f"{name} of {run.arm} for query {query_id} is {ours}, but ir-measures says"
                    f" {theirs}; the scores cannot be believed: mend harness.measures"
                )


def _shown(run: Run, query_id: str) -> tuple[str, ...] | None:
    answered = run.status[run.positions[query_id]] == Status.ANSWERED
    return run.ranking(query_id) if answered else None


def _jaccard(
    left: tuple[str, ...] | None, right: tuple[str, ...] | None, depth: int
) -> float | None:
    if left is None or right is None:
        return None
    here, there = set(left[:depth]), set(right[:depth])
    return len(here & there) / len(here | there) if here | there else None


def _tau(left: tuple[str, ...] | None, right: tuple[str, ...] | None, depth: int) -> float | None:
    from scipy.stats import kendalltau

    if left is None or right is None:
        return None
    there = right[:depth]
    shared = [doc_id for doc_id in left[:depth] if doc_id in there]
    if len(shared) < 2:  # noqa: PLR2004  one document has no order
        return None
    ranks = range(len(shared))
    return float(kendalltau(ranks, [there.index(doc_id) for doc_id in shared]).statistic)
