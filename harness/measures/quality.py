"""Quality of a run against judgements, query by query; ir-measures is the definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import ir_measures
import numpy as np
from ir_measures import Measure

from harness.core.errors import HarnessError
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.core.scores import Scores
from harness.measures.coverage import Coverage, coverage
from harness.measures.gain import as_gains
from harness.measures.name import parse

Values = Mapping[str, Mapping[str, float]]
"""By the measure as ir-measures writes it, then by query id."""


def score(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str]
) -> Mapping[str, Scores]:
    """Score the queries of ``asked``, by measure name as given (method, section 2).

    The score handed over is minus the rank, so that all measures of one call see one ranking.
    An empty answer and a query that is missing from the run score what ir-measures gives them,
    0. Queries without a value stand in ``Scores.undefined`` under ``unjudged``,
    ``negative_query`` (no relevant document; ``Judged``, ``NumRet`` and ``NumQ`` have a value
    all the same), ``failed`` or ``timed_out``, the first that fits.

    Raises:
        UnknownName: a measure that ir-measures cannot parse or compute here.
        EvidenceError: no query was asked, or one twice.
        InvalidArm: the run answers none of them.
        HarnessError: ir-measures fails at a measure, as at Accuracy where all hits are relevant.
    """
    parsed = {name: parse(name) for name in measures}
    found = coverage(run, qrels, asked)
    grades = sorted({grade for docs in qrels.grades.values() for grade in docs.values()})
    exact = {name: as_gains(measure, grades) for name, measure in parsed.items()}
    judged = frozenset(found.answerable).union(found.negative)
    shown = tuple(q for q in found.answered if q in judged)
    values = _values(run, qrels, shown, tuple(exact.values()))
    return {
        name: _scores(name, asked, _reasons(measure, qrels, found), values[repr(measure)])
        for name, measure in exact.items()
    }


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
    if _rests_on_judging_only(measure):
        return True
    if "gains" in measure.params:
        gains = measure.params["gains"]
        return any(gains[grade] > 0 for grade in grades)
    return max(grades) >= int(measure.params.get("rel", 1))


def _rests_on_judging_only(measure: Measure) -> bool:
    return measure.NAME in {"Judged", "NumQ"} or (
        measure.NAME == "NumRet" and "rel" not in measure.params
    )


def _values(run: Run, qrels: Qrels, shown: Sequence[str], measures: Sequence[Measure]) -> Values:
    """Compute all measures of the queries in ``shown``, which have hits and judgements.

    Queries and documents go over as numbers: one provider splits them at blanks and dashes. A
    query that has no grade above 0 ends trec_eval's process where all its grades are negative;
    so it takes part only in the measures that look at no grade, and with grade 0. Each measure
    goes over alone: in one call, ir-measures 0.4.3 may give a plain nDCG the gains of another.
    """
    number: dict[str, str] = {doc_id: str(at) for at, doc_id in enumerate(run.vocabulary)}
    positions = run.positions
    docs = run.docs.tolist()
    rankings: dict[str, dict[str, float]] = {}
    grades: dict[str, dict[str, int]] = {}
    for at, query_id in enumerate(shown):
        row = positions[query_id]
        hits = docs[int(run.offsets[row]) : int(run.offsets[row + 1])]
        rankings[str(at)] = {str(doc): -float(rank) for rank, doc in enumerate(hits, start=1)}
        grades[str(at)] = {
            number.setdefault(doc_id, str(len(number))): grade
            for doc_id, grade in qrels.grades[query_id].items()
        }
    flat = {at: dict.fromkeys(docs_of, 0) for at, docs_of in grades.items()}
    graded = {at: docs_of for at, docs_of in grades.items() if max(docs_of.values()) > 0}
    values: dict[str, dict[str, float]] = {}
    for measure in measures:
        judgements = flat if _rests_on_judging_only(measure) else graded
        part = {at: rankings[at] for at in judgements}
        try:
            metrics = tuple(ir_measures.iter_calc([measure], judgements, part))
        except ArithmeticError as error:
            raise HarnessError(
                f"{run.arm}: ir-measures cannot compute {measure} of this run ({error});"
                " ask for another measure"
            ) from error
        values[repr(measure)] = {shown[int(m.query_id)]: float(m.value) for m in metrics}
    return values
