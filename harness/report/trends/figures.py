"""Pictures of a history: measures with their intervals, and ratios of times, by decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from harness.report.svg import ARMS, LINE, MARKS, MUTED, draw, label, quiet
from harness.report.trends.history import Entry, Interval, comparable

WIDTH, HEIGHT = 7.6, 3.2
TICKS = 8
"""Most dates written below."""
SPREAD = 0.4
"""Share of the way to the next decision over which the lines lie beside each other."""
Points = Mapping[int, Interval]
"""Interval by number of the decision; a decision that has none is left out."""


def measures(name: str, entries: Sequence[Entry]) -> str:
    """Draw the mean of the first measure of each arm with its interval."""
    measure = entries[-1].measure
    arms = dict.fromkeys(arm for entry in entries for arm in entry.means)
    lines = {
        arm: {
            at: entry.means[arm][measure]
            for at, entry in enumerate(entries)
            if measure in entry.means.get(arm, {})
        }
        for arm in arms
    }
    about = f"Mean {measure} of {len(arms)} arms at {len(entries)} decisions"
    return draw(name, about, (WIDTH, HEIGHT), partial(_paint, entries, lines, measure, ratio=False))


def ratios(name: str, entries: Sequence[Entry], percent: str) -> str:
    """Draw candidate over control of each step's times; the line at 1 is as fast as the control.

    Empty where no decision has such a ratio.
    """
    steps = dict.fromkeys(step.step for entry in entries for step in entry.steps)
    lines = {
        name_of: {
            at: step.ratios[percent]
            for at, entry in enumerate(entries)
            for step in entry.steps
            if step.step == name_of and percent in step.ratios
        }
        for name_of in steps
    }
    kept = {step: points for step, points in lines.items() if points}
    if not kept:
        return ""
    about = f"Ratio of {percent} times, candidate over control, of {len(kept)} steps"
    what = f"{percent} time, candidate / control"
    return draw(name, about, (WIDTH, HEIGHT), partial(_paint, entries, kept, what, ratio=True))


def _paint(
    entries: Sequence[Entry], lines: Mapping[str, Points], what: str, figure: Figure, *, ratio: bool
) -> None:
    axes = figure.subplots()
    figure.subplots_adjust(left=0.09, right=0.77, top=0.95, bottom=0.14)
    quiet(axes, grid="y")
    for at, (named, points) in enumerate(lines.items()):
        aside = SPREAD * (at + 0.5 - len(lines) / 2) / len(lines)
        _line(axes, entries, points, named=label(named), number=at, aside=aside)
    if ratio:
        axes.set_yscale("log")
        axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    for at, (before, after) in enumerate(pairwise(entries), start=1):
        if not comparable(before, after):
            axes.axvline(at - 0.5, color=LINE, linewidth=1.2)
    step = max(1, -(-len(entries) // TICKS))
    ticks = list(range(len(entries) - 1, -1, -step))[::-1]
    axes.set_xticks(ticks, [entries[at].decided_at.strftime("%d %b %Y") for at in ticks])
    axes.set_xlim(-0.5, len(entries) - 0.5)
    axes.set_ylabel(what)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def _line(
    axes: Axes, entries: Sequence[Entry], points: Points, *, named: str, number: int, aside: float
) -> None:
    """Draw one line, broken where the data became others or a decision has no value.

    It lies ``aside`` of its dates, so that intervals do not hide each other.
    """
    colour, mark = ARMS[number % len(ARMS)], MARKS[number % len(MARKS)]
    for first, run in enumerate(_runs(entries, points)):
        low = [one.value if one.low is None else one.low for one in map(points.__getitem__, run)]
        high = [one.value if one.high is None else one.high for one in map(points.__getitem__, run)]
        values = [points[at].value for at in run]
        beside = [at + aside for at in run]
        shown = "_" if first else named
        axes.plot(beside, values, mark, linestyle="-", color=colour, linewidth=1.6, markersize=4.5,
                  label=shown)  # fmt: skip
        axes.vlines(beside, low, high, color=colour, linewidth=1.2, alpha=0.7)


def _runs(entries: Sequence[Entry], points: Points) -> list[list[int]]:
    """Split the decisions where two that follow one another cannot be compared."""
    found: list[list[int]] = []
    for at in points:
        joined = found and found[-1][-1] == at - 1 and comparable(entries[at - 1], entries[at])
        if joined:
            found[-1].append(at)
        else:
            found.append([at])
    return found
