"""Quality of a run against judgements, query by query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

import ir_measures
import numpy as np
from ir_measures import Measure
from numpy.typing import NDArray

from harness.core.errors import HarnessError
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.core.scores import Scores
from harness.measures.columnar import kernels
from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.columnar.graded import Graded
from harness.measures.columnar.spec import MeasureSpec
from harness.measures.coverage import Coverage, coverage, kept
from harness.measures.gain import as_gains
from harness.measures.name import parse

Values = Mapping[str, Mapping[str, float]]
"""By the measure as ir-measures writes it, then by query id."""
Compute = Callable[
    [Run, Qrels, EncodedQrels, Sequence[str], Sequence[Measure]], Mapping[str, kernels.Values]
]
"""Values by the measure as ir-measures writes it, each of shape (judged queries,).

Those of the queries named, which have hits and judgements, count; the others are not read.
"""
REASONS = ("unjudged", "negative_query", "failed", "timed_out", "not_asked")
"""Why a query has no value; the first that fits."""
TOGETHER = 1_000
"""Queries that ir-measures is given at a time, so that its memory does not grow with them."""


def score(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str]
) -> Mapping[str, Scores]:
    """Score the queries of ``asked``, by measure name as given (method, section 2).

    All measures of one call use one ranking: a graded ranking for kernels, and minus the rank as
    score for ir-measures. An empty answer scores 0, as in ir-measures. Queries without a value are
    in ``Scores.undefined`` by the first reason that fits. Reasons are ``unjudged``,
    ``negative_query`` (no relevant document), ``failed``, ``timed_out`` and ``not_asked`` (missing
    from the run). ``Judged``, ``NumRet`` and ``NumQ`` have a value for negative queries too.

    Raises:
        UnknownName: a measure that ir-measures cannot parse or compute here.
        EvidenceError: ``asked`` is empty, or repeats a query.
        InvalidArm: the run answers none of them.
        HarnessError: ir-measures fails at a measure, as at Accuracy where all hits are relevant.
    """
    return score_by(run, qrels, measures, asked, _by_kernel)


def oracle(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str]
) -> Mapping[str, Scores]:
    """Score as ``score`` does, with every measure computed by ir-measures: slower, the same."""
    return score_by(run, qrels, measures, asked, _by_library)


def score_by(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str], compute: Compute
) -> Mapping[str, Scores]:
    """Score as ``score`` does, with the values that ``compute`` gives."""
    parsed = {name: parse(name) for name in measures}
    found = coverage(run, qrels, asked)
    coded = EncodedQrels.of(qrels)
    grades = np.unique(coded.grades).tolist()
    exact = {name: as_gains(measure, grades) for name, measure in parsed.items()}
    rows = np.fromiter(map(coded.position.get, asked, repeat(-1)), np.int64, len(asked))
    answered = _among(asked, found.answered)
    shown = answered & (rows >= 0)
    values = compute(run, qrels, coded, kept(asked, shown), tuple(exact.values()))
    why = _unfinished(asked, found)
    return {
        name: _scores(
            name,
            asked,
            _reasons(measure, coded, rows, why),
            np.where(shown, np.append(values[repr(measure)], 0.0)[rows], 0.0),
        )
        for name, measure in exact.items()
    }


def _by_kernel(
    run: Run,
    qrels: Qrels,
    coded: EncodedQrels,
    shown: Sequence[str],
    measures: Sequence[Measure],
) -> Mapping[str, kernels.Values]:
    """Compute by kernel where there is one, and hand the other measures to ir-measures."""
    asked = {repr(measure): MeasureSpec.of(measure) for measure in measures}
    others = [measure for measure in measures if asked[repr(measure)] is None]
    values = dict(_by_library(run, qrels, coded, shown, others)) if others else {}
    graded = Graded.of(run, coded)
    for name, wanted in asked.items():
        if wanted is not None:
            values[name] = kernels.evaluate(graded, wanted)
    return values


def _by_library(
    run: Run,
    qrels: Qrels,
    coded: EncodedQrels,
    shown: Sequence[str],
    measures: Sequence[Measure],
) -> Mapping[str, kernels.Values]:
    """Compute every measure by ir-measures."""
    return {
        name: np.array([of.get(query_id, 0.0) for query_id in coded.query_ids], dtype=np.float64)
        for name, of in values(run, qrels, shown, measures).items()
    }


def _among(asked: Sequence[str], some: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which of ``asked`` are in ``some``, shape (asked,)."""
    if len(some) == len(asked):
        return np.ones(len(asked), dtype=bool)
    known = frozenset(some)
    return np.fromiter(map(known.__contains__, asked), bool, len(asked))


def _unfinished(asked: Sequence[str], found: Coverage) -> NDArray[np.int8]:
    """Code of the reason that lies in the run, shape (asked,); -1 where the query was answered."""
    why = np.full(len(asked), -1, dtype=np.int8)
    for reason, ids in (
        ("failed", found.failed),
        ("timed_out", found.timed_out),
        ("not_asked", found.missing),
    ):
        if ids:
            why[_among(asked, ids)] = REASONS.index(reason)
    return why


def _reasons(
    measure: Measure, coded: EncodedQrels, rows: NDArray[np.int64], why: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Say why each query without a value has none, by its place in ``REASONS``; else -1."""
    found = why.copy()
    found[rows < 0] = REASONS.index("unjudged")
    answerable = np.append(_answerable(measure, coded), True)
    found[~answerable[rows]] = REASONS.index("negative_query")
    return found


def _scores(
    name: str, asked: Sequence[str], reasons: NDArray[np.int8], values: kernels.Values
) -> Scores:
    valued = reasons < 0
    undefined: dict[str, list[str]] = {}
    for place in np.flatnonzero(~valued).tolist():
        undefined.setdefault(REASONS[reasons[place]], []).append(asked[place])
    return Scores(
        name,
        kept(asked, valued),
        values[valued],
        {why: tuple(ids) for why, ids in undefined.items()},
    )


def _answerable(measure: Measure, coded: EncodedQrels) -> NDArray[np.bool_]:
    """Tell which judged queries have a value of ``measure``, shape (judged queries,)."""
    if rests_on_judging_only(measure):
        return np.ones(len(coded), dtype=bool)
    if "gains" in measure.params:
        good = kernels.gains_of(coded.grades, measure.params["gains"]) > 0
        return np.bincount(coded.rows[good], minlength=len(coded)) > 0
    return coded.relevant(int(measure.params.get("rel", 1))) > 0


def rests_on_judging_only(measure: Measure) -> bool:
    """Tell whether a measure has a value for a query that no document answers."""
    return measure.NAME in {"Judged", "NumQ"} or (
        measure.NAME == "NumRet" and "rel" not in measure.params
    )


def values(run: Run, qrels: Qrels, shown: Sequence[str], measures: Sequence[Measure]) -> Values:
    """Compute all measures of the queries in ``shown``, which have hits and judgements.

    Queries and documents go over as numbers: one provider splits them at blanks and dashes. If all
    grades of a query are negative, trec_eval ends the process. So a query without a grade above 0
    takes part only in measures that use no grade, with grade 0. Each measure is called alone: in
    one call, ir-measures 0.4.3 may give a plain nDCG the gains of another.

    Raises:
        HarnessError: ir-measures fails at a measure, as at Accuracy where all hits are relevant.
    """
    found: dict[str, dict[str, float]] = {repr(measure): {} for measure in measures}
    number = {doc_id: str(at) for at, doc_id in enumerate(run.vocabulary)}
    names = tuple(number.values())
    for first in range(0, len(shown), TOGETHER):
        some = shown[first : first + TOGETHER]
        rankings: dict[str, dict[str, float]] = {}
        grades: dict[str, dict[str, int]] = {}
        for at, query_id in enumerate(some):
            row = run.positions[query_id]
            hits = run.docs[int(run.offsets[row]) : int(run.offsets[row + 1])].tolist()
            rankings[str(at)] = {names[doc]: -float(rank) for rank, doc in enumerate(hits, start=1)}
            grades[str(at)] = {
                number.setdefault(doc_id, str(len(number))): grade
                for doc_id, grade in qrels.grades[query_id].items()
            }
        flat = {at: dict.fromkeys(docs_of, 0) for at, docs_of in grades.items()}
        graded = {at: docs_of for at, docs_of in grades.items() if max(docs_of.values()) > 0}
        for measure in measures:
            judgements = flat if rests_on_judging_only(measure) else graded
            part = {at: rankings[at] for at in judgements}
            if not part:
                continue
            try:
                metrics = tuple(ir_measures.iter_calc([measure], judgements, part))
            except ArithmeticError as error:
                raise HarnessError(
                    f"{run.arm}: ir-measures cannot compute {measure} of this run ({error});"
                    " ask for another measure"
                ) from error
            found[repr(measure)].update((some[int(m.query_id)], float(m.value)) for m in metrics)
    return found
