"""The bounds of a step's gates on what a forest plot shows, by the name of its row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from harness.gates import latency_ratio
from harness.policy.asked import asked_means
from harness.report.inputs import ReportInput

Bounds = Mapping[str, tuple[float, ...]]
"""By row; on the scale of the row, in rising order."""


def of_means(report: ReportInput, comparison: str) -> Bounds:
    """Give the bounds on differences over all queries, by measure."""
    return _by_row((measure, at) for measure, part, at in _asked(report, comparison) if not part)


def of_slices(report: ReportInput, comparison: str) -> Bounds:
    """Give the bounds on differences in the first measure, by slice."""
    asked = _asked(report, comparison)
    return _by_row((part, at) for measure, part, at in asked if part and measure == report.measure)


def of_ratios(report: ReportInput, comparison: str) -> Bounds:
    """Give the bounds on ratios of times, by percentile."""
    return _by_row(
        (settings.percent, settings.max_ratio)
        for settings in _settings(report, comparison)
        if isinstance(settings, latency_ratio.Settings)
    )


def _settings(report: ReportInput, comparison: str) -> Iterator[object]:
    for step in report.trust.policy.steps if report.trust else ():
        if step.name == comparison:
            yield from (gate.settings for gate in step.gates)


def _asked(report: ReportInput, comparison: str) -> Iterator[tuple[str, str, float]]:
    """Yield measure, slice (empty for all) and bound of what is held against the control."""
    slices = report.evidence[comparison].slices if comparison in report.evidence else ()
    for settings in _settings(report, comparison):
        for asked in asked_means(settings, slices):
            if asked.versus is None:
                on = asked.settings
                yield on.measure, on.slice or "", asked.limit
                if asked.both_sides:
                    yield on.measure, on.slice or "", -asked.limit


def _by_row(found: Iterator[tuple[str, float]]) -> Bounds:
    rows: dict[str, set[float]] = defaultdict(set)
    for row, bound in found:
        rows[row].add(bound)
    return {row: tuple(sorted(bounds)) for row, bounds in rows.items()}
