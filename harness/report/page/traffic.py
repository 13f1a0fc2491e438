"""The mean over the traffic of a log beside the plain mean of the sampled queries."""

from __future__ import annotations

from harness.report.inputs import ReportInput
from harness.report.page.tables import difference_cell, mean_cell
from harness.report.rows import Cell, Table


def traffic(report: ReportInput) -> Table:
    """Show both means of each arm and of each comparison; no row without a sample of a log."""
    measure, found = report.measure, report.traffic
    arms = [
        (Cell(arm), mean_cell(found[arm], None), mean_cell(means.get(measure), None))
        for arm, means in report.means.items()
        if arm in found
    ]
    pairs = {f"{e.control.arm}~{e.candidate.arm}": name for name, e in report.evidence.items()}
    differences = [
        (
            Cell(key.replace("~", " → ")),
            difference_cell(found[key], None),
            difference_cell(report.differences.get(name, {}).get(measure), None),
        )
        for key, name in pairs.items()
        if key in found
    ]
    header = ("arm or comparison", "mean over the traffic", "plain mean, as the gates judge it")
    caption = f"{measure} over the requests of the log, and over the sampled queries"
    return Table(caption, header, (*arms, *differences))
