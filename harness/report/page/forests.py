"""A report's comparisons as forest plots, with the bounds of the gates."""

from __future__ import annotations

from harness.report.inputs import ReportInput
from harness.report.page import bounds, forest, latency_tables


def differences(report: ReportInput, name: str, figure: str) -> str | None:
    """Draw a comparison by measure, and by slice in the first measure."""
    groups = (
        forest.Group(
            "by measure",
            report.differences.get(name, {}),
            report.measure,
            bounds=bounds.of_means(report, name),
        ),
        forest.Group(
            f"{report.measure} by slice",
            report.slice_differences.get(name, {}),
            bounds=bounds.of_slices(report, name),
        ),
    )
    about = f"Differences of {name} by measure and by slice; numbers are in the tables"
    return forest.differences(figure, about, groups)


def ratios(report: ReportInput, figure: str) -> str | None:
    """Draw the ratios of times beside those of each arm against itself."""
    latency = report.latency
    if latency is None:
        return None
    compared = latency_tables.trusted_ratios(report, latency)
    groups = (
        *(
            forest.Group(name, row, bounds=bounds.of_ratios(report, name))
            for name, row in compared.items()
        ),
        *(forest.Group(f"A/A: {arm}", row, noise=True) for arm, row in latency.aa.items()),
    )
    about = "Ratios of times, beside each arm against itself; numbers are in the table"
    return forest.ratios(figure, about, groups)
