"""A load as two figures: the tail against the rate, and every percentile on an axis of nines."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from harness.report.load.inputs import LoadReport, Point
from harness.report.page.figures import WIDTH
from harness.report.rounding import NS_PER_MS
from harness.report.svg import ARMS, MARKS, MUTED, PAPER, draw, key, note, quiet

NINES = (0.0, 0.9, 0.99, 0.999, 0.9999)
CURVE = 160
"""Points of a percentile curve."""
DASHED, DOTTED = "--", ":"


def load_curve(name: str, report: LoadReport) -> str | None:
    """Draw p99 and p50 of each arm against the rate; None where no trial at a rate counts.

    A point is all rounds together, the line through it where they lie.
    """
    shown = [p for p in report.points if p.rate is not None and not p.twin and p.overall.count]
    if not shown:
        return None

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.09, 0.15, 0.64, 0.79))
        quiet(axes, grid="y")
        for at, arm in enumerate(report.arms):
            of = [point for point in shown if point.arm == arm]
            colour = ARMS[at % len(ARMS)]
            mark = MARKS[at % len(MARKS)]
            for percent, style, face in ((99.0, "-", colour), (50.0, DASHED, PAPER)):
                line = _against_rate(axes, of, percent, colour, f"{mark}{style}")
                line.set_markerfacecolor(face)
            key(axes, at, arm)
        if report.budget_ns is not None:
            axes.axhline(report.budget_ns / NS_PER_MS, color=MUTED, linewidth=1, linestyle=DOTTED)
        note(axes, 0, "full: p99, hollow: p50")
        note(axes, 1, "bars: lowest to highest round")
        _milliseconds(axes)
        axes.set(xlabel="arrivals a second", xlim=(0, None))

    about = f"Response times of {', '.join(report.arms)} against the rate; numbers are in the table"
    return draw(name, about, (WIDTH, 3.4), paint)


def _against_rate(axes: Axes, of: list[Point], percent: float, colour: str, style: str) -> Line2D:
    """Draw one percentile; ``style`` is a mark and a line, as matplotlib writes them."""
    rates = [point.rate or 0.0 for point in of]
    whole = [_ms(point.overall.percentile(percent)) for point in of]
    for rate, point in zip(rates, of, strict=True):
        rounds = [_ms(record.trial.overall.percentile(percent)) for record in point.records]
        if len(rounds) > 1:
            axes.plot([rate, rate], [min(rounds), max(rounds)], color=colour, linewidth=1)
    return axes.plot(rates, whole, style, markersize=4.5, color=colour, linewidth=1.6)[0]


def percentile_curves(name: str, report: LoadReport) -> str | None:
    """Draw the whole distribution of each arm at the highest rate that all have; None without one.

    Solid is the response time from the intended start, dashed the time from the real start, which
    is all that a generator sees that waits for answers. The gap is what it would leave out.
    """
    shared = [
        rate
        for rate in report.rates
        if all((p := report.point(arm, rate)) and p.overall.count for arm in report.arms)
    ]
    if not shared:
        return None
    points = [report.point(arm, shared[-1]) for arm in report.arms]

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.09, 0.15, 0.64, 0.79))
        quiet(axes, grid="y")
        for at, point in enumerate(points):
            if point is None:
                continue
            colour = ARMS[at % len(ARMS)]
            for of, style in ((point.overall, "-"), (point.service, DASHED)):
                furthest = min(np.log10(of.count), len(NINES) - 1)
                nines = np.linspace(0, furthest, CURVE)
                times = of.curve(100 * (1 - 10.0**-nines))
                axes.plot(nines, [_ms(time) for time in times], f"{MARKS[at % len(MARKS)]}{style}",
                          color=colour, linewidth=1.6, markersize=4,
                          markevery=CURVE // 6)  # fmt: skip
            key(axes, at, point.arm)
        note(axes, 0, "solid: from the intended start")
        note(axes, 1, "dashed: from the real start")
        _milliseconds(axes)
        axes.xaxis.set_major_locator(FixedLocator(list(range(len(NINES)))))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{100 * NINES[round(at)]:g} %"))
        axes.set(xlabel=f"share of answers within, at {shared[-1]:g} arrivals a second")
        axes.set_xlim(0, len(NINES) - 1)

    about = f"Percentiles of {', '.join(report.arms)} at {shared[-1]:g} arrivals a second"
    return draw(name, about, (WIDTH, 3.4), paint)


def _ms(time_ns: float | None) -> float:
    return (time_ns or 0) / NS_PER_MS


def _milliseconds(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("milliseconds (log scale)")
