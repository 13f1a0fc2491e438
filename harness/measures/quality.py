"""Quality of a run against judgements, and its means over queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat

import ir_measures
import numpy as np
from ir_measures import Measure
from numpy.typing import NDArray

from harness.core.errors import EvidenceError, HarnessError, InvalidArm
from harness.core.records import Qrels
from harness.core.run import Run, Status
from harness.core.scores import Estimate, Scores, codes
from harness.measures import kernels
from harness.measures.columns import EncodedQrels
from harness.measures.kernels import Graded, MeasureSpec
from harness.measures.name import as_gains, parse
from harness.stats.bounded import ValueRange
from harness.stats.inference import Inference
from harness.stats.interval import interval_each

UNJUDGED = float("nan")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Query ids in order; the first five fields partition the query set, as do the last three."""

    answered: tuple[str, ...]
    """Answered with at least one hit."""
    empty: tuple[str, ...]
    """Answered, with nothing found: scores 0."""
    failed: tuple[str, ...]
    """The engine failed: no score."""
    timed_out: tuple[str, ...]
    """The engine was too slow: no score."""
    missing: tuple[str, ...]
    """Not in the run: no score."""
    answerable: tuple[str, ...]
    """Judged, with a relevant document."""
    negative: tuple[str, ...]
    """Judged, with none."""
    unjudged: tuple[str, ...]
    """Without any judgement."""


def coverage(run: Run, qrels: Qrels, asked: Sequence[str]) -> Coverage:
    """Group the queries of ``asked`` by outcome and by judgement."""
    if not asked:
        raise EvidenceError(f"{run.arm}: the query set is empty; nothing can be scored")
    if len(set(asked)) != len(asked):
        twice = next(q for at, q in enumerate(asked) if q in asked[:at])
        raise EvidenceError(f"query {twice} is in the set twice; keep one of the two")
    rows = np.fromiter(map(run.positions.get, asked, repeat(-1)), np.int64, len(asked))
    in_run = rows >= 0
    status = np.full(len(asked), Status.NOT_ASKED, dtype=np.uint8)
    status[in_run] = run.status[rows[in_run]]
    hits = np.zeros(len(asked), dtype=bool)
    hits[in_run] = run.lengths[rows[in_run]] > 0
    answered = status == Status.ANSWERED
    ended = {
        "answered": kept(asked, answered & hits),
        "empty": kept(asked, answered & ~hits),
        "failed": kept(asked, status == Status.FAILED),
        "timed_out": kept(asked, status == Status.TIMED_OUT),
        "missing": kept(asked, status == Status.NOT_ASKED),
    }
    if not ended["answered"] and not ended["empty"]:
        why = next((error for error in run.errors if error), "the run holds none of them")
        raise InvalidArm(
            f"{run.arm}: none of {len(asked)} queries was answered ({why});"
            " fix the arm and replay it"
        )
    best = {query_id: max(docs.values()) for query_id, docs in qrels.grades.items()}
    grades = np.fromiter(map(best.get, asked, repeat(UNJUDGED)), np.float64, len(asked))
    return Coverage(
        **ended,
        answerable=kept(asked, grades > 0),
        negative=kept(asked, grades <= 0),
        unjudged=kept(asked, np.isnan(grades)),
    )


def kept(asked: Sequence[str], keep: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return the ids of ``asked`` where ``keep``, shape (asked,), is true."""
    return tuple(asked) if keep.all() else tuple(compress(asked, keep.tolist()))


def missing(run: Run, qrels: Qrels, asked: Sequence[str]) -> tuple[str, ...]:
    """Judged queries of ``asked`` that are not in the run; none has a score."""
    found = coverage(run, qrels, asked)
    unjudged = frozenset(found.unjudged)
    return tuple(query_id for query_id in found.missing if query_id not in unjudged)


def summarise(
    scores: Scores, *, span: ValueRange | None, inference: Inference, clusters: Mapping[str, str]
) -> Estimate:
    """Mean over the queries that have a value, with its interval (method, section 4).

    ``span`` is of the values, as ``harness.measures.name`` gives it.

    ``clusters`` names the cluster of a query by its id; queries of one cluster are drawn together,
    and a query that is not in there is drawn alone.
    """
    (found,) = summarise_each([(scores, span)], inference=inference, clusters=clusters)
    return found


def summarise_each(
    spanned: Sequence[tuple[Scores, ValueRange | None]],
    *,
    inference: Inference,
    clusters: Mapping[str, str],
) -> tuple[Estimate, ...]:
    """Do as ``summarise`` for each, in order; those of the same queries and span share one draw."""
    together = defaultdict[tuple[tuple[str, ...], ValueRange | None], list[int]](list)
    for at, (scores, span) in enumerate(spanned):
        together[scores.query_ids, span].append(at)
    found: dict[int, Estimate] = {}
    for (query_ids, span), places in together.items():
        estimates = interval_each(
            np.column_stack([spanned[at][0].values for at in places]),
            span=span,
            inference=inference,
            clusters=codes(query_ids, clusters),
        )
        found.update(zip(places, estimates, strict=True))
    return tuple(found[at] for at in range(len(spanned)))


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
        name: with_reasons(
            name,
            asked,
            reasons(measure, coded, rows, why),
            np.where(shown, np.append(values[repr(measure)], 0.0)[rows], 0.0),
        )
        for name, measure in exact.items()
    }


def _by_kernel(
    run: Run, qrels: Qrels, coded: EncodedQrels, shown: Sequence[str], measures: Sequence[Measure]
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
    run: Run, qrels: Qrels, coded: EncodedQrels, shown: Sequence[str], measures: Sequence[Measure]
) -> Mapping[str, kernels.Values]:
    """Compute every measure by ir-measures."""
    return {
        name: np.array([of.get(query_id, 0.0) for query_id in coded.query_ids], dtype=np.float64)
        for name, of in values(run, qrels, shown, measures).items()
    }


def _among(asked: Sequence[str], some: Sequence[str]) -> NDArray[np.bool_]:
    """Describe which of ``asked`` are in ``some``, shape (asked,)."""
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


def reasons(
    measure: Measure, coded: EncodedQrels, rows: NDArray[np.int64], why: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Return why each query without a value has none, by its place in ``REASONS``; else -1."""
    found = why.copy()
    found[rows < 0] = REASONS.index("unjudged")
    answerable = np.append(_answerable(measure, coded), True)
    found[~answerable[rows]] = REASONS.index("negative_query")
    return found


def with_reasons(
    name: str, asked: Sequence[str], why: NDArray[np.int8], values: kernels.Values
) -> Scores:
    """Return the values of queries that have one, and the others by their reason."""
    valued = why < 0
    undefined: dict[str, list[str]] = {}
    for place in np.flatnonzero(~valued).tolist():
        undefined.setdefault(REASONS[why[place]], []).append(asked[place])
    return Scores(
        name,
        kept(asked, valued),
        values[valued],
        {why: tuple(ids) for why, ids in undefined.items()},
    )


def _answerable(measure: Measure, coded: EncodedQrels) -> NDArray[np.bool_]:
    """Describe which judged queries have a value of ``measure``, shape (judged queries,)."""
    if rests_on_judging_only(measure):
        return np.ones(len(coded), dtype=bool)
    if "gains" in measure.params:
        good = kernels.gains_of(coded.grades, measure.params["gains"]) > 0
        return np.bincount(coded.rows[good], minlength=len(coded)) > 0
    return coded.relevant(int(measure.params.get("rel", 1))) > 0


def rests_on_judging_only(measure: Measure) -> bool:
    """Return whether a measure has a value for a query that no document answers."""
    return measure.NAME in {"Judged", "NumQ"} or (
        measure.NAME == "NumRet" and "rel" not in measure.params
    )


def values(run: Run, qrels: Qrels, shown: Sequence[str], measures: Sequence[Measure]) -> Values:
    """Compute all measures of the queries in ``shown``, which have hits and judgements.

    Queries and documents go over as numbers: one provider splits them at blanks and dashes. If all
    grades of a query are negative, trec_eval ends the process. So a query without a grade above 0
    takes part only in measures that use no grade, with grade 0. Each measure is called alone: in
    one call, ir-measures 0.4.3 may give a plain nDCG the gains of another.
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
