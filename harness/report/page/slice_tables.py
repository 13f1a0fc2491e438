"""Means and differences by slice, as rows of words."""

from __future__ import annotations

from harness.report.inputs import ReportInput
from harness.report.page.tables import best_first, difference_cell, mean_cell
from harness.report.rows import Cell, Table


def by_slice(report: ReportInput) -> Table:
    """Show the first measure of every arm in every slice, arms in the leaderboard's order."""
    arms = best_first(report.means, report.measure)
    rows = tuple(
        (Cell(name), *(mean_cell(means.get(arm, {}).get(report.measure), None) for arm in arms))
        for name, means in sorted(report.slice_means.items())
    )
    return Table(f"{report.measure} by slice", ("slice", *arms), rows)


def slice_differences(report: ReportInput) -> Table:
    """Show the first measure's difference in every slice, a column a comparison."""
    names = tuple(name for name in report.evidence if name in report.slice_differences)
    slices = sorted({name for row in report.slice_differences.values() for name in row})
    rows = tuple((Cell(part), *(_cell(report, name, part) for name in names)) for part in slices)
    sides = (report.evidence[name] for name in names)
    header = (f"{e.control.arm} → {e.candidate.arm}" for e in sides)
    caption = f"Candidate minus control by slice, {report.measure}"
    return Table(caption, ("slice", *header), rows)


def _cell(report: ReportInput, name: str, part: str) -> Cell:
    return difference_cell(report.slice_differences[name].get(part), None)
