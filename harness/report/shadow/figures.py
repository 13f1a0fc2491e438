"""Pictures of a shadow log: how the estimates closed in, and how long both arms took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from harness.report.page.figures import WIDTH
from harness.report.rounding import NS_PER_MS, number, watched
from harness.report.svg import ARMS, INK, MARKS, MUTED, draw, key, note, quiet
from harness.shadow.watch.track import Point

SIZE = WIDTH, 4.6
"""Inches of the picture of the sequences."""
CURVE = 240
"""Points of a distribution curve."""
MARKED = (0.50, 0.95, 0.99)
"""Shares that are marked on a distribution curve."""
TITLES = {
    "overlap": "overlap (mean Jaccard)",
    "failures": "failures of the candidate",
    "slow": "slow pairs",
    "ratio": "median time ratio",
}
RATIO = "ratio"
OPEN_END = 4
"""An axis whose upper end is unbounded reaches so many times as far as the value."""
WIDE = 1_000
"""Ends of an axis of times further apart than this leave room for whole powers of ten only."""
ROOM = 0.01
"""Height of an axis on which nothing moves."""


def sequences(name: str, tracks: Mapping[str, Sequence[Point]]) -> str | None:
    """Draw each estimate and its confidence sequence over the pairs seen; None without any."""
    shown = {what: points for what, points in tracks.items() if points}
    if not shown:
        return None
    return draw(name, say(shown), SIZE, partial(paint, shown))


def say(shown: Mapping[str, Sequence[Point]]) -> str:
    """Put into words what ``paint`` draws."""
    said = "; ".join(
        f"{TITLES[what]} {number(points[-1].estimate.value)} {watched(points[-1].estimate)}"
        for what, points in shown.items()
    )
    return f"Confidence sequences, as they stand: {said}"


def paint(shown: Mapping[str, Sequence[Point]], figure: Figure) -> None:
    """Paint at most four sequences, a panel each; each has a point."""
    panels = figure.subplots(2, 2, squeeze=True).ravel()
    for axes, (what, points) in zip(panels, shown.items(), strict=False):
        _panel(axes, what, points)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    figure.subplots_adjust(0.07, 0.10, 0.98, 0.93, wspace=0.18, hspace=0.5)


def _panel(axes: Axes, what: str, points: Sequence[Point]) -> None:
    quiet(axes, grid="y")
    pairs = [point.estimate.n for point in points]
    values = [point.estimate.value for point in points]
    floor, ceiling = _range(points)
    floor = max(floor, ceiling / 1e3) if what == RATIO else floor
    low = [max(point.estimate.low, floor) for point in points]
    high = [min(point.estimate.high, ceiling) for point in points]
    axes.fill_between(pairs, low, high, color=ARMS[0], alpha=0.22, linewidth=0)
    axes.plot(pairs, low, color=ARMS[0], linewidth=0.8)
    axes.plot(pairs, high, color=ARMS[0], linewidth=0.8)
    axes.plot(pairs, values, color=INK, linewidth=1.5)
    if what == RATIO:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.axhline(1, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set(xlim=(0, max(pairs)), ylim=(floor, ceiling), title=TITLES[what], xlabel="pairs")


def _range(points: Sequence[Point]) -> tuple[float, float]:
    """Give the ends of the axis: what all but the first quarter of the track needs."""
    later = [point.estimate for point in points[len(points) // 4 :]]
    low = min(min(one.low, one.value) for one in later)
    ends = [max(one.high, one.value) for one in later if math.isfinite(one.high)]
    high = max(ends, default=OPEN_END * max(one.value for one in later))
    return low, high if high > low else low + ROOM


def curves(name: str, times: Mapping[str, NDArray[np.int64]]) -> str | None:
    """Draw the share of answers within a time, each arm on its own clock; None without times."""
    if not any(len(found) for found in times.values()):
        return None
    share = np.linspace(0.0, 1.0, CURVE)

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.09, 0.15, 0.66, 0.78))
        quiet(axes, grid="y")
        for at, (arm, found) in enumerate(times.items()):
            colour = ARMS[at % len(ARMS)]
            axes.plot(np.quantile(found / NS_PER_MS, share), share, color=colour, linewidth=1.8)
            for mark in MARKED:
                time = float(np.quantile(found / NS_PER_MS, mark))
                axes.plot([time], [mark], MARKS[at % len(MARKS)], color=colour, markersize=4.5)
            key(axes, at, arm)
        note(axes, 1, "marks: p50, p95, p99")
        axes.set_xscale("log")
        left, right = axes.get_xlim()
        steps = (1,) if right > WIDE * left else (1, 2, 5)
        axes.xaxis.set_major_locator(LogLocator(subs=steps))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(ylim=(0, 1.02), xlabel="milliseconds per query (log scale)")
        axes.set_ylabel("share of answers within")

    about = f"Latency distributions of {' and '.join(times)}; percentiles are in the table"
    return draw(name, about, (WIDTH, 3.3), paint)
