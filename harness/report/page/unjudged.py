"""What the missing judgements leave open of each difference (method, section 2)."""

from __future__ import annotations

import numpy as np

from harness.core.evidence import ArmResult, Evidence
from harness.core.scores import Paired
from harness.measures.quality import score
from harness.measures.spans import span_of
from harness.measures.unjudged.missing import judged_by_relevance, missing
from harness.measures.unjudged.runs import condense
from harness.report.inputs import ReportInput
from harness.report.page.cards import paired
from harness.report.page.tables import NOT_MEASURED
from harness.report.rounding import number, signed
from harness.report.rows import Cell, Table

JUDGED = "Judged@10"


def unjudged(report: ReportInput) -> Table:
    """Show each difference beside what it would be on judged documents alone, and its bounds.

    A comparison without a query that both arms have a value for has no row.
    """
    found = {name: (each, paired(each, report.measure)) for name, each in report.evidence.items()}
    rows = tuple(
        (
            Cell(name, f"{evidence.control.arm} → {evidence.candidate.arm}"),
            _judged(evidence.control),
            _judged(evidence.candidate),
            Cell(signed(float(pairs.difference.mean()))),
            _condensed(report, evidence, pairs),
            _bounds(report, evidence, pairs),
        )
        for name, (evidence, pairs) in found.items()
        if pairs and pairs.query_ids
    )
    header = (
        "comparison", f"control's {JUDGED}", f"candidate's {JUDGED}", report.measure,
        "on judged documents alone", "whatever is not judged",
    )  # fmt: skip
    return Table("What unjudged documents leave open, candidate minus control", header, rows)


def _judged(side: ArmResult) -> Cell:
    scores = side.scores.get(JUDGED)
    return Cell(NOT_MEASURED if scores is None else number(scores.mean))


def _condensed(report: ReportInput, evidence: Evidence, pairs: Paired) -> Cell:
    values = [
        score(condense(side.run, report.qrels), report.qrels, [report.measure], pairs.query_ids)
        for side in (evidence.control, evidence.candidate)
    ]
    means = [each[report.measure].mean for each in values]
    control, candidate = means
    if control is None or candidate is None:
        return Cell(NOT_MEASURED)
    return Cell(signed(candidate - control))


def _bounds(report: ReportInput, evidence: Evidence, pairs: Paired) -> Cell:
    if evidence.complete:
        return Cell("nothing: its judgements are complete", evidence.complete)
    if span_of(report.measure) is None or not judged_by_relevance(report.measure):
        return Cell(f"{report.measure} has no bounds")
    runs = evidence.control.run, evidence.candidate.run
    found = missing(*runs, report.qrels, report.measure).of(pairs.query_ids)
    measured = pairs.difference
    ends = (
        float(np.where(found.counts > 0, end, measured).mean()) for end in (found.worst, found.best)
    )
    note = "" if found.exact else "outer bounds, not reached"
    return Cell(" to ".join(map(signed, ends)), note)
