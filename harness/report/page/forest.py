"""Forest plots: estimates with their intervals in rows, against the line of "no difference"."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.core.scores import Estimate
from harness.gates.latency import LatencyRatioSettings
from harness.policy.decision import asked_means
from harness.report.inputs import ReportInput
from harness.report.rounding import MINUS, interval, number, signed
from harness.report.svg import (
    BETTER,
    INK,
    LINE,
    MUTED,
    PAPER,
    WORSE,
    draw,
    label,
    logarithmic,
    quiet,
)

Bounds = Mapping[str, tuple[float, ...]]
"""By row; on the scale of the row, in rising order."""
WIDTH = 7.6
ROW, FRAME = 0.235, 0.92
"""Inches a row, and above and below all of them."""
LEFT, MIDDLE = 0.235, 0.375
"""Shares of the width: names, and the plot."""
VALUE, INTERVAL, COUNT = 1.03, 1.26, 2.01
"""Where the columns of numbers begin, and where the last one ends, in widths of the plot."""
HALF = 0.42
"""Half the height of a bound, in rows."""
ROOM = 0.06
"""Share of the plot that is left free on both sides."""
WIDE = math.log(300)
"""An axis of ratios further apart than this has room for whole powers of ten only."""


class ForestGroup(NamedTuple):
    """Rows under one heading."""

    title: str
    rows: Mapping[str, Estimate]
    first: str = ""
    """Name of the row that people look at first; it is drawn as a diamond."""
    noise: bool = False
    """Whether control stands against control, so that nothing here is a difference."""
    bounds: Bounds = MappingProxyType({})
    """Bounds of gates for a row; each is a short upright line."""


def differences(name: str, about: str, groups: Sequence[ForestGroup]) -> str | None:
    """Draw candidate - control; more is better. None without rows."""
    return _forest(name, about, groups, ratio=False)


def ratios(name: str, about: str, groups: Sequence[ForestGroup]) -> str | None:
    """Draw candidate / control of times on a log axis; less is better. None where no row is."""
    return _forest(name, about, groups, ratio=True)


def _forest(name: str, about: str, groups: Sequence[ForestGroup], *, ratio: bool) -> str | None:
    shown = [
        group._replace(rows=rows)
        for group in groups
        if (rows := {row: e for row, e in group.rows.items() if _drawable(e, ratio=ratio)})
    ]
    if not shown:
        return None
    lines = sum(1 + len(group.rows) for group in shown)
    height = ROW * lines + FRAME

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((LEFT, 0.52 / height, MIDDLE, 1 - FRAME / height))
        quiet(axes, grid="x")
        axes.axvline(1 if ratio else 0, color=INK, linewidth=1)
        _axis(axes, shown, ratio=ratio)
        axes.set_ylim(lines - 0.4, -0.6)
        at, ticks, names = 0, [], []
        for group in shown:
            axes.text(-0.56, at, label(group.title), transform=axes.get_yaxis_transform(),
                      va="center", color=INK, fontweight="bold", fontsize=8.5)  # fmt: skip
            for row, found in group.rows.items():
                at += 1
                _row(axes, at, found, group, first=row == group.first, ratio=ratio)
                for bound in group.bounds.get(row, ()):
                    axes.plot([bound, bound], [at - HALF, at + HALF], color=INK, linewidth=1.6)
                ticks.append(at)
                names.append(label(row))
            at += 1
        axes.set_yticks(ticks, names)

    return draw(name, about, (WIDTH, height), paint)


def _drawable(found: Estimate, *, ratio: bool) -> bool:
    return math.isfinite(found.value) and (found.value > 0 or not ratio)


def _row(
    axes: Axes, at: int, found: Estimate, group: ForestGroup, *, first: bool, ratio: bool
) -> None:
    axes.axhline(at, color=LINE, linewidth=0.5, zorder=0)
    left, right = axes.get_xlim()
    low, high = max(found.low, left), min(found.high, right)
    colour, full = _look(found, ratio=ratio)
    colour = MUTED if group.noise else colour
    style = (0, (3, 2)) if group.noise else "-"
    axes.plot([low, high], [at, at], color=colour, linewidth=2, linestyle=style)
    axes.plot(
        [found.value], [at], "D" if first else "s", color=colour, markersize=5.5 if first else 4.5,
        markerfacecolor=colour if full and not group.noise else PAPER,
    )  # fmt: skip
    said = number(found.value) if ratio else signed(found.value)
    beside = axes.get_yaxis_transform()
    axes.text(VALUE, at, said, transform=beside, va="center", fontsize=8.5, color=INK)
    words = interval(found)
    axes.text(INTERVAL, at, words, transform=beside, va="center", fontsize=8.5, color=MUTED)
    axes.text(COUNT, at, f"{found.n:,}", transform=beside, va="center", ha="right", fontsize=8.5,
              color=MUTED)  # fmt: skip


def _look(found: Estimate, *, ratio: bool) -> tuple[str, bool]:
    """Return the colour, and whether the interval lies on one side."""
    line = 1.0 if ratio else 0.0
    if found.low > line or found.high < line:
        above = found.low > line
        return (WORSE if above == ratio else BETTER), True
    return MUTED, False


def _axis(axes: Axes, groups: Sequence[ForestGroup], *, ratio: bool) -> None:
    """Set the axis: all ends that are finite, and the line; an infinite end reaches its edge."""
    said = "faster  ←   time of candidate / control   →  slower"
    axes.set_xlabel(said if ratio else f"worse  ←   candidate {MINUS} control   →  better")
    top = axes.get_yaxis_transform()
    for x, word, side in ((INTERVAL, "interval", "left"), (COUNT, "n", "right")):
        axes.text(x, 0, word, transform=top, va="center", ha=side, fontsize=8.5, color=MUTED)
    found = [e for group in groups for e in group.rows.values()]
    ends = [end for e in found for end in (e.low, e.value, e.high) if math.isfinite(end)]
    ends += [at for group in groups for row in group.rows for at in group.bounds.get(row, ())]
    if ratio:
        ends = [math.log(end) for end in ends if end > 0]
    left, right = min(0.0, *ends), max(0.0, *ends)
    room = ROOM * (right - left) or ROOM
    left, right = left - room, right + room
    if ratio:
        axes.set_xlim(math.exp(left), math.exp(right))
        logarithmic(axes, "x", (1,) if right - left > WIDE else (1, 2, 5))
    else:
        axes.set_xlim(left, right)
        axes.xaxis.set_major_locator(MaxNLocator(5))


def draw_differences(report: ReportInput, name: str, figure: str) -> str | None:
    """Draw a comparison by measure, and by slice in the first measure."""
    groups = (
        ForestGroup(
            "by measure",
            report.differences.get(name, {}),
            report.measure,
            bounds=of_means(report, name),
        ),
        ForestGroup(
            f"{report.measure} by slice",
            report.slice_differences.get(name, {}),
            bounds=of_slices(report, name),
        ),
    )
    about = f"Differences of {name} by measure and by slice; numbers are in the tables"
    return differences(figure, about, groups)


def draw_ratios(report: ReportInput, figure: str) -> str | None:
    """Draw the ratios of times beside those of each arm against itself."""
    latency = report.latency
    if latency is None:
        return None
    compared = report.trusted_ratios(latency)
    groups = (
        *(ForestGroup(name, row, bounds=of_ratios(report, name)) for name, row in compared.items()),
        *(ForestGroup(f"A/A: {arm}", row, noise=True) for arm, row in latency.aa.items()),
    )
    about = "Ratios of times, beside each arm against itself; numbers are in the table"
    return ratios(figure, about, groups)


def of_means(report: ReportInput, comparison: str) -> Bounds:
    """Return the bounds on differences over all queries, by measure."""
    return _by_row((measure, at) for measure, part, at in _asked(report, comparison) if not part)


def of_slices(report: ReportInput, comparison: str) -> Bounds:
    """Return the bounds on differences in the first measure, by slice."""
    asked = _asked(report, comparison)
    return _by_row((part, at) for measure, part, at in asked if part and measure == report.measure)


def of_ratios(report: ReportInput, comparison: str) -> Bounds:
    """Return the bounds on ratios of times, by percentile."""
    return _by_row(
        (settings.percent, settings.max_ratio)
        for settings in _settings(report, comparison)
        if isinstance(settings, LatencyRatioSettings) and not settings.per_query
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
