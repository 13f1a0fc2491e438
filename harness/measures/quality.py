"""Quality of a run against judgements, and its means over queries."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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


def kept(asked: Sequence[str], keep: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return the ids of ``asked`` where ``keep``, shape (asked,), is true."""
    return tuple(asked) if keep.all() else tuple(compress(asked, keep.tolist()))


def summarise(
    scores: Scores, *, span: ValueRange | None, inference: Inference, clusters: Mapping[str, str]
) -> Estimate:
    """Mean over the queries that have a value, with its interval (method, section 4).

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


Compute = Callable[[EncodedQrels, Sequence[str], Sequence[Measure]], Mapping[str, kernels.Values]]
"""Values by the measure as ir-measures writes it, each of shape (judged queries,).

Those of the queries named, which have hits and judgements, count; the others are not read.
"""
REASONS = ("unjudged", "negative_query", "failed", "timed_out", "not_asked")
"""Why a query has no value; the first that fits."""
WHY = np.array([-1, *map(REASONS.index, ("failed", "timed_out", "not_asked"))], dtype=np.int8)
"""Place in ``REASONS`` by how a query ended; -1 where it was answered."""
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
    return score_by(run, qrels, measures, asked, partial(_by_kernel, run, qrels))


def oracle(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str]
) -> Mapping[str, Scores]:
    """Score as ``score`` does, with every measure computed by ir-measures: slower, the same."""
    return score_by(run, qrels, measures, asked, partial(_by_library, run, qrels))


def score_by(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str], compute: Compute
) -> Mapping[str, Scores]:
    """Score as ``score`` does, with the values that ``compute`` gives."""
    parsed = {name: parse(name) for name in measures}
    status, has_hits = _ended(run, asked)
    coded = EncodedQrels.of(qrels)
    grades = np.unique(coded.grades).tolist()
    exact = {name: as_gains(measure, grades) for name, measure in parsed.items()}
    rows = np.fromiter(map(coded.position.get, asked, repeat(-1)), np.int64, len(asked))
    shown = (status == Status.ANSWERED) & has_hits & (rows >= 0)
    values = compute(coded, kept(asked, shown), tuple(exact.values()))
    found = {}
    for name, measure in exact.items():
        why = WHY[status]
        why[rows < 0] = REASONS.index("unjudged")
        answerable = np.append(_answerable(measure, coded), True)
        why[~answerable[rows]] = REASONS.index("negative_query")
        own = np.where(shown, np.append(values[repr(measure)], 0.0)[rows], 0.0)
        undefined: dict[str, list[str]] = {}
        for place in np.flatnonzero(why >= 0).tolist():
            undefined.setdefault(REASONS[why[place]], []).append(asked[place])
        reasons = {reason: tuple(ids) for reason, ids in undefined.items()}
        found[name] = Scores(name, kept(asked, why < 0), own[why < 0], reasons)
    return found


def _ended(run: Run, asked: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return how each query ended and whether it has hits; refuse a run that answered none."""
    if not asked:
        raise EvidenceError(f"{run.arm}: the query set is empty; nothing can be scored")
    if len(set(asked)) != len(asked):
        twice = next(q for at, q in enumerate(asked) if q in asked[:at])
        raise EvidenceError(f"query {twice} is in the set twice; keep one of the two")
    rows = np.fromiter(map(run.positions.get, asked, repeat(-1)), np.int64, len(asked))
    status = np.append(run.status, np.uint8(Status.NOT_ASKED))[rows]
    if not (status == Status.ANSWERED).any():
        why = next((error for error in run.errors if error), "the run holds none of them")
        raise InvalidArm(
            f"{run.arm}: none of {len(asked)} queries was answered ({why});"
            " fix the arm and replay it"
        )
    return status, np.append(run.lengths > 0, False)[rows]


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


def _by_library(
    run: Run, qrels: Qrels, coded: EncodedQrels, shown: Sequence[str], measures: Sequence[Measure]
) -> Mapping[str, kernels.Values]:
    """Compute all measures of the queries in ``shown`` by ir-measures.

    Queries and documents go over as numbers: one provider splits them at blanks and dashes. If all
    grades of a query are negative, trec_eval ends the process. So a query without a grade above 0
    takes part only in measures that use no grade, with grade 0. Each measure is called alone: in
    one call, ir-measures 0.4.3 may give a plain nDCG the gains of another.
    """
    found = {repr(measure): np.zeros(len(coded)) for measure in measures}
    number = {doc_id: str(at) for at, doc_id in enumerate(run.vocabulary)}
    names = tuple(number.values())
    for first in range(0, len(shown), TOGETHER):
        some = shown[first : first + TOGETHER]
        rankings: dict[str, dict[str, float]] = {}
        grades: dict[str, dict[str, int]] = {}
        for query_id in some:
            at, row = str(coded.position[query_id]), run.positions[query_id]
            hits = run.docs[int(run.offsets[row]) : int(run.offsets[row + 1])].tolist()
            rankings[at] = {names[doc]: -float(rank) for rank, doc in enumerate(hits, start=1)}
            grades[at] = {
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
            for metric in metrics:
                found[repr(measure)][int(metric.query_id)] = metric.value
    return found
