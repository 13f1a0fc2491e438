"""The mean over the traffic of a log beside the plain mean of the sampled queries."""

from __future__ import annotations

from harness.report.inputs import ReportInput
from harness.report.page.tables import difference_cell, mean_cell
from harness.report.rounding import percent
from harness.report.rows import Cell, Table
from harness.stats.stratified import TrafficMean


def traffic(report: ReportInput) -> Table:
    """Show both means of each arm and of each comparison; no row without a sample of a log."""
    measure, found = report.measure, report.traffic
    arms = [
        (
            Cell(arm),
            mean_cell(found[arm].estimate, None),
            _share(found[arm]),
            mean_cell(means.get(measure), None),
        )
        for arm, means in report.means.items()
        if arm in found
    ]
    pairs = {f"{e.control.arm}~{e.candidate.arm}": name for name, e in report.evidence.items()}
    differences = [
        (
            Cell(key.replace("~", " → ")),
            difference_cell(found[key].estimate, None),
            _share(found[key]),
            difference_cell(report.differences.get(name, {}).get(measure), None),
        )
        for key, name in pairs.items()
        if key in found
    ]
    header = (
        "arm or comparison", "mean over the traffic", "share of the requests",
        "plain mean, as the gates judge it",
    )  # fmt: skip
    caption = f"{measure} over the requests of the log, and over the sampled queries"
    return Table(caption, header, (*arms, *differences))


def _share(found: TrafficMean) -> Cell:
    return Cell(percent(found.share))
