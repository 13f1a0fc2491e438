"""Estimate a difference from judgements of people and of a machine, each in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.clusters import codes
from harness.core.errors import EvidenceError, UnknownName
from harness.core.gate import Verdict
from harness.core.printable import many
from harness.core.qrels import Qrels
from harness.core.run import Run, Status
from harness.core.scores import Estimate
from harness.corpus import labels
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.gates.base.rules import TOUCH
from harness.measures.name import parse
from harness.stages.custody.proof import check_run
from harness.stages.layout import Layout
from harness.stats.assisted import Assisted, assisted
from harness.stats.calibration import Codes, Flags, UniqueHits
from harness.stats.inference import Inference
from harness.stats.raters.kappa import kappa

MEASURE = "P"


@dataclass(frozen=True, slots=True)
class Judging:
    """What is compared, and by whom it was judged."""

    control: str
    candidate: str
    measure: str
    """``P@k``: a document adds to the difference whatever the others are."""
    human: Path
    machine: Path
    margin: float


@dataclass(frozen=True, slots=True)
class AssistedDifference:
    """What the judgements say."""

    found: Assisted
    agreement: Estimate
    """Kappa of people and machine, over the documents that both judged."""
    grades: tuple[int | None, ...]
    """Grade of the machine by its code; None for documents that it did not judge."""
    queries: int
    judged: int
    """Queries that people judged."""
    verdict: Verdict
    """Of "the candidate loses less than the margin", by the judgements of people alone."""


def difference(layout: Layout, judging: Judging, inference: Inference) -> AssistedDifference:
    """Estimate candidate - control over the queries that both arms answered.

    A query counts as judged by people where they judged every document within the cutoff that one
    arm shows and the other does not. Which queries people judge must be drawn at random.

    Raises:
        UnknownName: the measure is not a precision at a cutoff.
        EvidenceError: an arm was not replayed, people judged parts of queries or too few, or no
            document was judged by both.
        BadFile: a file of judgements cannot be read.
    """
    measure = parse(judging.measure)
    if measure.NAME != MEASURE:
        measures = ("P@5", "P@10", "P(rel=2)@10")
        raise UnknownName(
            "measure to which each document adds by itself", judging.measure, measures
        )
    depth, relevant = int(measure.params["cutoff"]), int(measure.params.get("rel", 1))
    for arm in (judging.control, judging.candidate):
        check_run(layout, arm)
    runs = read_run(layout.run(judging.control)), read_run(layout.run(judging.candidate))
    answered = frozenset(_answered(runs[0])) & frozenset(_answered(runs[1]))
    ids = tuple(q for q in runs[0].query_ids if q in answered)
    signs = {q: one_sided(*(run.ranking(q, depth) for run in runs)) for q in ids}
    people = labels.judgements(judging.human, "person")
    machine = labels.judgements(judging.machine, "machine")
    shown, grades = _shown(signs, (people, machine), depth, relevant)
    clusters = codes(ids, Prepared.open(layout.data).clusters())
    whole = _judged(signs, people, judging.human, inference.seed)
    found = assisted(shown, whole, clusters=clusters, inference=inference)
    alike = _agreement(shown, grades, whole[shown.query], relevant, clusters, inference)
    verdict = _verdict(found.human, -judging.margin)
    return AssistedDifference(found, alike, grades, len(ids), int(whole.sum()), verdict)


def _verdict(used: Estimate, limit: float) -> Verdict:
    if used.low > limit + TOUCH:
        return Verdict.PASS
    return Verdict.FAIL if used.high < limit - TOUCH else Verdict.INCONCLUSIVE


def _answered(run: Run) -> list[str]:
    ended = zip(run.query_ids, run.status.tolist(), strict=True)
    return [query_id for query_id, status in ended if status == Status.ANSWERED]


def one_sided(control: Sequence[str], candidate: Sequence[str]) -> dict[str, int]:
    """Give 1 for each document of the candidate alone, -1 for each of the control alone."""
    both = set(control) & set(candidate)
    found = dict.fromkeys(control, -1) | dict.fromkeys(candidate, 1)
    return {doc_id: sign for doc_id, sign in found.items() if doc_id not in both}


def _judged(signs: Mapping[str, Mapping[str, int]], people: Qrels, path: Path, seed: int) -> Flags:
    """Tell which queries people judged.

    Where both arms show the same documents the difference is 0 without a judgement. Of these
    queries as large a share is drawn as people judged of the others, so that all that are judged
    remain a random part.
    """
    lacking = {
        query_id: [d for d in docs if d not in people.grades.get(query_id, {})]
        for query_id, docs in signs.items()
    }
    begun = [q for q, left in lacking.items() if left and q in people.grades]
    if begun:
        pairs = sum(len(lacking[q]) for q in begun)
        raise EvidenceError(
            f"{path}: {many(len(begun), 'query is')} judged in part, for example {begun[0]};"
            f" judge their {many(pairs, 'missing document')}, or leave these queries out"
        )
    apart = np.array([bool(docs) for docs in signs.values()])
    judged: Flags = np.array([q in people.grades for q in signs]) & apart
    alike = np.flatnonzero(~apart)
    share = float(judged.sum()) / max(1, int(apart.sum()))
    rng = np.random.Generator(np.random.Philox(key=seed))
    judged[rng.permutation(alike)[: round(share * len(alike))]] = True
    return judged


def _shown(
    signs: Mapping[str, Mapping[str, int]],
    judged_by: tuple[Qrels, Qrels],
    depth: int,
    relevant: int,
) -> tuple[UniqueHits, tuple[int | None, ...]]:
    ids = tuple(signs)
    people, machine = judged_by
    rows = [(at, doc_id, sign) for at, q in enumerate(ids) for doc_id, sign in signs[q].items()]
    by_people = [people.grades.get(ids[at], {}).get(doc_id) for at, doc_id, _ in rows]
    by_machine = [machine.grades.get(ids[at], {}).get(doc_id) for at, doc_id, _ in rows]
    named = sorted({grade for grade in by_machine if grade is not None})
    grades: tuple[int | None, ...] = (*named, None)
    code = {grade: at for at, grade in enumerate(grades)}
    shown = UniqueHits(
        np.array([at for at, _, _ in rows], dtype=np.int64),
        np.array([sign / depth for _, _, sign in rows]),
        np.array([np.nan if g is None else float(g >= relevant) for g in by_people]),
        np.array([code[grade] for grade in by_machine], dtype=np.int64),
    )
    return shown, grades


def _agreement(  # noqa: PLR0917  all of it is needed
    shown: UniqueHits,
    grades: Sequence[int | None],
    known: Flags,
    relevant: int,
    clusters: Codes | None,
    inference: Inference,
) -> Estimate:
    both = known & (shown.machine < len(grades) - 1)
    if not both.any():
        raise EvidenceError("no document was judged by people and by the machine")
    yes = np.array([float(grade is not None and grade >= relevant) for grade in grades])
    groups = shown.query if clusters is None else clusters[shown.query]
    return kappa(
        shown.human[both], yes[shown.machine[both]], groups[both], confidence=inference.confidence
    )
