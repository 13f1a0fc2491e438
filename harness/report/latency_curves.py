"""Latency as distribution curves."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from harness.report.figures import WIDTH
from harness.report.inputs import Latency
from harness.report.latency_tables import is_verified
from harness.report.rounding import NS_PER_MS
from harness.report.svg import (
    ARMS,
    MUTED,
    draw,
    label,
    quiet,
)

CURVE = 240
"""Points of a distribution curve."""
MARKS = ((0.50, "o"), (0.95, "s"), (0.99, "D"))


def latency_curves(name: str, latency: Latency) -> str | None:
    """Draw the share of answers within a time for each verified arm, its A/A twin dashed."""
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
            twin = race.again_ns.get(arm)
            if twin is not None and twin.size:
                axes.plot(curve(twin), share, color=colour, linewidth=1.2, linestyle=(0, (3, 2)))
            for mark, marker in MARKS:
                time = float(np.quantile(race.elapsed_ns[arm] / NS_PER_MS, mark))
                axes.plot([time], [mark], marker, color=colour, markersize=4.5)
            y = 0.96 - 0.075 * at
            axes.text(1.04, y, "●", color=colour, transform=axes.transAxes, va="center")
            axes.text(1.08, y, label(arm), transform=axes.transAxes, va="center")
        notes = ("○ p50  □ p95  ◇ p99", "dashed: A/A twin")
        for at, note in enumerate(notes):
            axes.text(1.04, 0.10 - 0.08 * at, note, transform=axes.transAxes, color=MUTED)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(ylim=(0, 1.02), xlabel="milliseconds per query (log scale)")
        axes.set_ylabel("share of answers within")

    about = f"Latency distributions of {', '.join(arms)}; percentiles are in the table"
    return draw(name, about, (WIDTH, 3.3), paint)
