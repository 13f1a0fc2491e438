"""Measures as ir-measures computes them: the definition that every kernel must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ir_measures
from ir_measures import Measure

from harness.core.errors import HarnessError
from harness.core.qrels import Qrels
from harness.core.run import Run

Values = Mapping[str, Mapping[str, float]]
"""By the measure as ir-measures writes it, then by query id."""


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
    found: dict[str, dict[str, float]] = {}
    for measure in measures:
        judgements = flat if rests_on_judging_only(measure) else graded
        part = {at: rankings[at] for at in judgements}
        try:
            metrics = tuple(ir_measures.iter_calc([measure], judgements, part))
        except ArithmeticError as error:
            raise HarnessError(
                f"{run.arm}: ir-measures cannot compute {measure} of this run ({error});"
                " ask for another measure"
            ) from error
        found[repr(measure)] = {shown[int(m.query_id)]: float(m.value) for m in metrics}
    return found
