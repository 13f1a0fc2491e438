"""The figures of a report, each a function from values to an SVG element, and a race as tables."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from harness.core.scores import Estimate, Paired
from harness.gates.base.differences import asked_means
from harness.gates.latency import LatencyRatioSettings
from harness.report import svg
from harness.report.doc import Cell, Num, TableBlock, Value, measured, table, time_cell
from harness.report.inputs import Latency, ReportInput
from harness.report.page.cards import movement
from harness.report.rounding import MINUS, NS_PER_MS, interval, number, percent, signed

CACHED = 0.5
"""An arm is said to have a cache where a text that it knows surely takes less than this."""


def percentiles(latency: Latency) -> TableBlock:
    """Show the times of each arm whose rankings were verified, and words for the others."""
    shown = {arm: row for arm, row in latency.percentiles.items() if latency.is_verified(arm)}
    names = tuple(dict.fromkeys(name for row in shown.values() for name in row))
    why = "not shown: its rankings in the race were not those of its run"
    return table(
        "Milliseconds to the first answer to a text",
        ("arm", *names),
        (
            (arm, *(time_cell(times.get(name)) for name in names))
            if arm in shown
            else (Cell(arm, why), *("not shown" for _ in names))
            for arm, times in latency.percentiles.items()
        ),
    )


def conditions(latency: Latency) -> TableBlock:
    """Show under which conditions each arm was timed, and what it gains on texts that it knows."""
    race = latency.race
    return table(
        "What surrounded the times",
        ("arm", "processes", "taken by the system", "waiting for a processor",
         "preemptions an answer", "processor time / wall time", "text again / first time",
         "known text / unseen variant"),
        (
            (arm, len(times), Cell(percent(of.share), of.by), percent(of.waited),
             Num(of.preempted), percent(of.worked), _gain(latency.repeats.get(arm), "a cache"),
             _gain(latency.seen.get(arm), "kept answers"))
            for arm, times in race.elapsed_ns.items()
            for of in [race.stolen[arm]]
        ),
    )  # fmt: skip


def _gain(estimate: Estimate | None, name: str) -> Value:
    """Show what an arm gains on a text that it knows, and name it where it is much."""
    much = estimate is not None and estimate.high < CACHED
    return measured(estimate, more=name if much else "")


def ratios(report: ReportInput, latency: Latency) -> TableBlock:
    """Show candidate / control of each comparison, and each arm in other processes."""
    trusted = report.trusted_ratios(latency)
    rows_of = {
        **{name: trusted.get(name) for name in latency.ratios},
        **{f"{arm} in other processes (A/A)": row for arm, row in latency.aa.items()},
    }
    names = tuple(dict.fromkeys(name for row in rows_of.values() if row for name in row))
    why = "not shown: an arm's rankings in the race were not those of its run"
    return table(
        "Time of candidate / control",
        ("comparison", *names),
        (
            (Cell(name, why), *("not shown" for _ in names))
            if row is None
            else (name, *(measured(row.get(ratio)) for ratio in names))
            for name, row in rows_of.items()
        ),
    )


WIDTH = 7.6
"""Inches of a full-width figure."""
ORDER = "queries, from the largest loss to the largest gain"
STEPS = 1_000
"""Of the figure of all differences: finer than its pixels."""

CURVE = 240
"""Points of a distribution curve."""
GUIDES = MappingProxyType({"p50": 0.50, "p95": 0.95, "p99": 0.99})
"""Percentiles that are marked, with the interval of each."""
DASHES = (0, (3, 2))
WIDE = 1_000
"""Ends of an axis of times further apart than this leave room for whole powers of ten only."""

Bounds = Mapping[str, tuple[float, ...]]
"""By row; on the scale of the row, in rising order."""
ROW, FRAME = 0.235, 0.92
"""Inches a row of a forest, and above and below all of them."""
LEFT, MIDDLE = 0.235, 0.375
"""Shares of the width: names, and the plot."""
VALUE, INTERVAL, COUNT = 1.03, 1.26, 2.01
"""Where the columns of numbers begin, and where the last one ends, in widths of the plot."""
HALF = 0.42
"""Half the height of a bound, in rows."""
ROOM = 0.06
"""Share of the plot that is left free on both sides."""
WIDE_RATIOS = 300
"""The same of an axis of ratios."""


def paired_differences(name: str, pairs: Paired, estimate: Estimate | None) -> str | None:
    """Draw the difference of every query, sorted, with the mean and its interval."""
    if not pairs.difference.any():
        return None
    below = f"{ORDER}: {movement(pairs)}"
    paint = partial(paint_differences, pairs.difference, estimate, (below, pairs.measure))
    about = f"Differences of {pairs.measure} by query: {movement(pairs)}"
    return svg.draw(name, about, (WIDTH, 2.9), paint)


def paint_differences(
    values: NDArray[np.float64], estimate: Estimate | None, labels: tuple[str, str], figure: Figure
) -> None:
    """Paint one bar a query, sorted; of more than ``STEPS``, the means of neighbours."""
    ordered = np.sort(values)
    edges = np.linspace(0, len(ordered), min(len(ordered), STEPS) + 1).astype(np.int64)
    steps = np.add.reduceat(ordered, edges[:-1]) / np.diff(edges)
    axes = figure.add_axes((0.11, 0.18, 0.86, 0.68))
    svg.quiet(axes, grid="y")
    for side, colour in ((np.minimum(steps, 0), svg.WORSE), (np.maximum(steps, 0), svg.BETTER)):
        axes.stairs(side, edges, fill=True, color=colour, linewidth=0)
    axes.axhline(0, color=svg.INK, linewidth=0.8)
    if estimate is not None:
        both = estimate.low, estimate.high
        ends = (end if math.isfinite(end) else estimate.value for end in both)
        axes.axhspan(*ends, color=svg.MUTED, alpha=0.22, linewidth=0, zorder=0)
        axes.axhline(estimate.value, color=svg.INK, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.set_title(f"mean {signed(estimate.value)} {interval(estimate)}")
    axes.set(xlim=(0, len(ordered)), xlabel=labels[0], ylabel=labels[1])
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def latency_curves(name: str, latency: Latency) -> str | None:
    """Draw the share of answers within a time by verified arm; dashed where texts came again."""
    race, share = latency.race, np.linspace(0.0, 1.0, CURVE)
    shown = {
        arm: found
        for arm, found in race.elapsed_ns.items()
        if latency.is_verified(arm) and found.size
    }
    if not shown:
        return None

    def curve(found: NDArray[np.int64]) -> NDArray[np.float64]:
        ordered: NDArray[np.float64] = np.quantile(found.ravel() / NS_PER_MS, share)
        return ordered

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.09, 0.15, 0.66, 0.78))
        svg.quiet(axes, grid="y")
        for at, (arm, found) in enumerate(shown.items()):
            colour, again = svg.ARMS[at % len(svg.ARMS)], race.repeated_ns.get(arm)
            axes.plot(curve(found), share, color=colour, linewidth=1.8)
            if again is not None and again.size:
                axes.plot(curve(again), share, color=colour, linewidth=1.2, linestyle=DASHES)
            _percentiles(axes, at, found, latency.percentiles.get(arm, {}))
            svg.key(axes, at, arm)
        svg.note(axes, 0, "bars: intervals")
        if race.repeated_ns:
            svg.note(axes, 1, "dashed: texts again")
        axes.set_xscale("log")
        left, right = axes.get_xlim()
        svg.logarithmic(axes, "x", (1,) if right > WIDE * left else (1, 2, 5))
        for percentile, at_share in GUIDES.items():
            axes.axhline(at_share, color=svg.LINE, linewidth=0.6, linestyle=(0, (1, 2)), zorder=0)
            axes.text(0.005, at_share, percentile, transform=axes.get_yaxis_transform(),
                      va="top" if percentile == "p95" else "bottom", color=svg.MUTED,
                      fontsize=8)  # fmt: skip
        axes.set(ylim=(0, 1.02), xlabel="milliseconds per query (log scale)")
        axes.set_ylabel("share of answers within")

    about = f"Latency distributions of {', '.join(shown)}; percentiles are in the table"
    return svg.draw(name, about, (WIDTH, 3.3), paint)


def _percentiles(
    axes: Axes, at: int, times: NDArray[np.int64], intervals: Mapping[str, Estimate]
) -> None:
    """Mark the percentiles of an arm, each with its interval where one is known."""
    colour, mark = svg.ARMS[at % len(svg.ARMS)], svg.MARKS[at % len(svg.MARKS)]
    for percentile, share in GUIDES.items():
        found = intervals.get(percentile)
        if found is not None:
            ends = [end / NS_PER_MS for end in (found.low, found.high)]
            if np.isfinite(ends).all():
                axes.plot(ends, [share, share], color=colour, linewidth=4, alpha=0.45)
        time = float(np.quantile(times / NS_PER_MS, share))
        axes.plot([time], [share], mark, color=colour, markersize=4.5)


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


def forest(name: str, about: str, groups: Iterable[ForestGroup], *, ratio: bool) -> str | None:
    """Draw estimates against the line of "no difference"; None where no row can be drawn."""
    shown = [
        group._replace(rows=rows)
        for group in groups
        if (
            rows := {
                row: e
                for row, e in group.rows.items()
                if math.isfinite(e.value) and (e.value > 0 or not ratio)
            }
        )
    ]
    if not shown:
        return None
    lines = sum(1 + len(group.rows) for group in shown)
    height = ROW * lines + FRAME

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((LEFT, 0.52 / height, MIDDLE, 1 - FRAME / height))
        svg.quiet(axes, grid="x")
        axes.axvline(1 if ratio else 0, color=svg.INK, linewidth=1)
        _axis(axes, shown, ratio=ratio)
        axes.set_ylim(lines - 0.4, -0.6)
        at, ticks, names = 0, [], []
        for group in shown:
            axes.text(-0.56, at, svg.label(group.title), transform=axes.get_yaxis_transform(),
                      va="center", color=svg.INK, fontweight="bold", fontsize=8.5)  # fmt: skip
            for row, found in group.rows.items():
                at += 1
                _row(axes, at, found, group, first=row == group.first, ratio=ratio)
                for bound in group.bounds.get(row, ()):
                    axes.plot([bound, bound], [at - HALF, at + HALF], color=svg.INK, linewidth=1.6)
                ticks.append(at)
                names.append(svg.label(row))
            at += 1
        axes.set_yticks(ticks, names)

    return svg.draw(name, about, (WIDTH, height), paint)


def _row(
    axes: Axes, at: int, found: Estimate, group: ForestGroup, *, first: bool, ratio: bool
) -> None:
    axes.axhline(at, color=svg.LINE, linewidth=0.5, zorder=0)
    left, right = axes.get_xlim()
    low, high = max(found.low, left), min(found.high, right)
    line = 1.0 if ratio else 0.0
    above, full = found.low > line, found.low > line or found.high < line
    colour = svg.MUTED
    if full and not group.noise:
        colour = svg.WORSE if above == ratio else svg.BETTER
    style = (0, (3, 2)) if group.noise else "-"
    axes.plot([low, high], [at, at], color=colour, linewidth=2, linestyle=style)
    axes.plot(
        [found.value], [at], "D" if first else "s", color=colour, markersize=5.5 if first else 4.5,
        markerfacecolor=colour if full and not group.noise else svg.PAPER,
    )  # fmt: skip
    said = number(found.value) if ratio else signed(found.value)
    beside = axes.get_yaxis_transform()
    axes.text(VALUE, at, said, transform=beside, va="center", fontsize=8.5, color=svg.INK)
    words = interval(found)
    axes.text(INTERVAL, at, words, transform=beside, va="center", fontsize=8.5, color=svg.MUTED)
    axes.text(COUNT, at, f"{found.n:,}", transform=beside, va="center", ha="right", fontsize=8.5,
              color=svg.MUTED)  # fmt: skip


def _axis(axes: Axes, groups: Sequence[ForestGroup], *, ratio: bool) -> None:
    """Set the axis: all ends that are finite, and the line; an infinite end reaches its edge."""
    said = "faster  ←   time of candidate / control   →  slower"
    axes.set_xlabel(said if ratio else f"worse  ←   candidate {MINUS} control   →  better")
    top = axes.get_yaxis_transform()
    for x, word, side in ((INTERVAL, "interval", "left"), (COUNT, "n", "right")):
        axes.text(x, 0, word, transform=top, va="center", ha=side, fontsize=8.5, color=svg.MUTED)
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
        svg.logarithmic(axes, "x", (1,) if right - left > math.log(WIDE_RATIOS) else (1, 2, 5))
    else:
        axes.set_xlim(left, right)
        axes.xaxis.set_major_locator(MaxNLocator(5))


def draw_differences(report: ReportInput, name: str, figure: str) -> str | None:
    """Draw a comparison by measure, and by slice in the first measure."""
    rows = report.differences.get(name, {}), report.slice_differences.get(name, {})
    by_measure, by_slice, _ = bounds(report, name)
    groups = (
        ForestGroup("by measure", rows[0], report.measure, bounds=by_measure),
        ForestGroup(f"{report.measure} by slice", rows[1], bounds=by_slice),
    )
    about = f"Differences of {name} by measure and by slice; numbers are in the tables"
    return forest(figure, about, groups, ratio=False)


def draw_ratios(report: ReportInput, figure: str) -> str | None:
    """Draw the ratios of times beside those of each arm against itself."""
    if report.latency is None:
        return None
    groups = [
        ForestGroup(name, row, bounds=bounds(report, name)[2])
        for name, row in report.trusted_ratios(report.latency).items()
    ]
    groups += [
        ForestGroup(f"A/A: {arm}", row, noise=True) for arm, row in report.latency.aa.items()
    ]
    about = "Ratios of times, beside each arm against itself; numbers are in the table"
    return forest(figure, about, groups, ratio=True)


def bounds(report: ReportInput, comparison: str) -> tuple[Bounds, Bounds, Bounds]:
    """Return bounds of gates on differences by measure, by slice, and on ratios of times."""
    means, parts, times = (defaultdict[str, set[float]](set) for _ in range(3))
    evidence, policy = report.evidence.get(comparison), report.judged_by
    steps = [step for step in (policy.steps if policy else ()) if step.name == comparison]
    for settings in (gate.settings for step in steps for gate in step.gates):
        for asked in asked_means(settings, evidence.slices if evidence else ()):
            on, ends = (
                asked.settings,
                {asked.limit, -asked.limit if asked.both_sides else asked.limit},
            )
            if asked.versus is None and not on.slice:
                means[on.measure] |= ends
            elif asked.versus is None and on.slice and on.measure == report.measure:
                parts[on.slice] |= ends
        if isinstance(settings, LatencyRatioSettings) and not settings.per_query:
            times[settings.percent].add(settings.max_ratio)
    by_measure, by_slice, by_percentile = (
        {row: tuple(sorted(found)) for row, found in each.items()} for each in (means, parts, times)
    )
    return by_measure, by_slice, by_percentile
