"""Quality of a run against judgements, query by query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from ir_measures import Measure

from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.core.scores import Scores
from harness.measures import kernels, library
from harness.measures.asked import Asked
from harness.measures.coded import CodedQrels
from harness.measures.coverage import Coverage, coverage
from harness.measures.gain import as_gains
from harness.measures.graded import Graded
from harness.measures.name import parse

Compute = Callable[[Run, Qrels, Sequence[str], Sequence[Measure]], library.Values]
"""Values of measures for those of some queries that have hits and judgements."""


def score(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str]
) -> Mapping[str, Scores]:
    """Score the queries of ``asked``, by measure name as given (method, section 2).

    All measures of one call see one ranking: one graded ranking where we have a kernel, and minus
    the rank as the score where ir-measures computes. An empty answer and a query that is missing
    from the run score what ir-measures gives them, 0. Queries without a value stand in
    ``Scores.undefined`` under ``unjudged``, ``negative_query`` (no relevant document; ``Judged``,
    ``NumRet`` and ``NumQ`` have a value all the same), ``failed`` or ``timed_out``, the first
    that fits.

    Raises:
        UnknownName: a measure that ir-measures cannot parse or compute here.
        EvidenceError: no query was asked, or one twice.
        InvalidArm: the run answers none of them.
        HarnessError: ir-measures fails at a measure, as at Accuracy where all hits are relevant.
    """
    return score_by(run, qrels, measures, asked, _by_kernel)


def oracle(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str]
) -> Mapping[str, Scores]:
    """Score as ``score`` does, with every measure computed by ir-measures: slower, the same."""
    return score_by(run, qrels, measures, asked, library.values)


def score_by(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str], compute: Compute
) -> Mapping[str, Scores]:
    """Score as ``score`` does, with the values that ``compute`` gives."""
    parsed = {name: parse(name) for name in measures}
    found = coverage(run, qrels, asked)
    grades = sorted({grade for docs in qrels.grades.values() for grade in docs.values()})
    exact = {name: as_gains(measure, grades) for name, measure in parsed.items()}
    judged = frozenset(found.answerable).union(found.negative)
    shown = tuple(q for q in found.answered if q in judged)
    values = compute(run, qrels, shown, tuple(exact.values()))
    return {
        name: _scores(name, asked, _reasons(measure, qrels, found), values[repr(measure)])
        for name, measure in exact.items()
    }


def _by_kernel(
    run: Run, qrels: Qrels, shown: Sequence[str], measures: Sequence[Measure]
) -> library.Values:
    """Compute by kernel where there is one, and hand the other measures to ir-measures."""
    asked = {repr(measure): Asked.of(measure) for measure in measures}
    others = [measure for measure in measures if asked[repr(measure)] is None]
    values = dict(library.values(run, qrels, shown, others)) if others else {}
    graded = Graded.of(run, CodedQrels.of(qrels))
    for name, wanted in asked.items():
        if wanted is not None:
            values[name] = by_query(graded, kernels.evaluate(graded, wanted), shown)
    return values


def by_query(graded: Graded, values: kernels.Values, shown: Sequence[str]) -> dict[str, float]:
    """Name the values of a kernel by query id, those of ``shown`` alone."""
    known = dict(zip(graded.qrels.query_ids, values.tolist(), strict=True))
    return {query_id: known[query_id] for query_id in shown}


def _reasons(measure: Measure, qrels: Qrels, found: Coverage) -> Mapping[str, str]:
    """Say why each query without a value has none; what the judgements say goes first."""
    reasons = dict.fromkeys(found.timed_out, "timed_out") | dict.fromkeys(found.failed, "failed")
    for query_id in (*found.answerable, *found.negative):
        if not _answerable(measure, qrels.grades[query_id].values()):
            reasons[query_id] = "negative_query"
    return reasons | dict.fromkeys(found.unjudged, "unjudged")


def _scores(
    name: str, asked: Sequence[str], reasons: Mapping[str, str], values: Mapping[str, float]
) -> Scores:
    kept = tuple(query_id for query_id in asked if query_id not in reasons)
    undefined: dict[str, list[str]] = {}
    for query_id in asked:
        if query_id in reasons:
            undefined.setdefault(reasons[query_id], []).append(query_id)
    return Scores(
        name,
        kept,
        np.array([values.get(query_id, 0.0) for query_id in kept], dtype=np.float64),
        {why: tuple(ids) for why, ids in undefined.items()},
    )


def _answerable(measure: Measure, grades: Iterable[int]) -> bool:
    """Tell whether a query with these grades has a value of ``measure``."""
    if library.rests_on_judging_only(measure):
        return True
    if "gains" in measure.params:
        gains = measure.params["gains"]
        return any(gains[grade] > 0 for grade in grades)
    return max(grades) >= int(measure.params.get("rel", 1))
