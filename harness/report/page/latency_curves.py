"""Latency as distribution curves."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from harness.core.scores import Estimate
from harness.report.inputs import Latency
from harness.report.page.figures import WIDTH
from harness.report.page.latency_tables import is_verified
from harness.report.rounding import NS_PER_MS
from harness.report.svg import ARMS, LINE, MARKS, MUTED, draw, key, note, quiet

CURVE = 240
"""Points of a distribution curve."""
GUIDES = MappingProxyType({"p50": 0.50, "p95": 0.95, "p99": 0.99})
"""Percentiles that are marked, with the interval of each."""
DASHES = (0, (3, 2))


def latency_curves(name: str, latency: Latency) -> str | None:
    """Draw the share of answers within a time by verified arm; dashed where texts came again."""
    race = latency.race
    arms = [a for a in race.elapsed_ns if is_verified(latency, a) and race.elapsed_ns[a].size]
    if not arms:
        return None
    share = np.linspace(0.0, 1.0, CURVE)

    def curve(times: NDArray[np.int64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.quantile(times.ravel() / NS_PER_MS, share)
        return found

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.09, 0.15, 0.66, 0.78))
        quiet(axes, grid="y")
        for at, arm in enumerate(arms):
            colour = ARMS[at % len(ARMS)]
            axes.plot(curve(race.elapsed_ns[arm]), share, color=colour, linewidth=1.8)
            again = race.repeated_ns.get(arm)
            if again is not None and again.size:
                axes.plot(curve(again), share, color=colour, linewidth=1.2, linestyle=DASHES)
            _percentiles(axes, at, race.elapsed_ns[arm], latency.percentiles.get(arm, {}))
            key(axes, at, arm)
        note(axes, 0, "bars: intervals")
        note(axes, 1, "dashed: texts again")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        for percentile, at_share in GUIDES.items():
            axes.axhline(at_share, color=LINE, linewidth=0.6, linestyle=(0, (1, 2)), zorder=0)
            axes.text(0.005, at_share, percentile, transform=axes.get_yaxis_transform(),
                      va="top" if percentile == "p95" else "bottom", color=MUTED,
                      fontsize=8)  # fmt: skip
        axes.set(ylim=(0, 1.02), xlabel="milliseconds per query (log scale)")
        axes.set_ylabel("share of answers within")

    about = f"Latency distributions of {', '.join(arms)}; percentiles are in the table"
    return draw(name, about, (WIDTH, 3.3), paint)


def _percentiles(
    axes: Axes, at: int, times: NDArray[np.int64], intervals: Mapping[str, Estimate]
) -> None:
    """Mark the percentiles of an arm, each with its interval where one is known."""
    colour, mark = ARMS[at % len(ARMS)], MARKS[at % len(MARKS)]
    for percentile, share in GUIDES.items():
        found = intervals.get(percentile)
        if found is not None:
            ends = [end / NS_PER_MS for end in (found.low, found.high)]
            if np.isfinite(ends).all():
                axes.plot(ends, [share, share], color=colour, linewidth=4, alpha=0.45)
        time = float(np.quantile(times / NS_PER_MS, share))
        axes.plot([time], [share], mark, color=colour, markersize=4.5)
