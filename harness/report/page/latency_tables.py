"""A race as tables and curves; times of an arm that answered otherwise are not shown."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from harness.core.scores import Estimate
from harness.report.inputs import Latency, ReportInput
from harness.report.page.figures import WIDTH
from harness.report.page.tables import NOT_MEASURED
from harness.report.rounding import NS_PER_MS, interval, number, percent
from harness.report.rows import Cell, Table, time_cell
from harness.report.svg import ARMS, LINE, MARKS, MUTED, draw, key, note, quiet

CURVE = 240
"""Points of a distribution curve."""
GUIDES = MappingProxyType({"p50": 0.50, "p95": 0.95, "p99": 0.99})
"""Percentiles that are marked, with the interval of each."""
DASHES = (0, (3, 2))
CACHED = 0.5
"""An arm is said to have a cache where a text that it knows surely takes less than this."""


def percentiles(latency: Latency) -> Table:
    """Show the times of each arm whose rankings were verified, and words for the others."""
    shown = {arm: row for arm, row in latency.percentiles.items() if is_verified(latency, arm)}
    names = tuple(dict.fromkeys(name for row in shown.values() for name in row))

    rows: list[tuple[Cell, ...]] = []
    for arm, times in latency.percentiles.items():
        if is_verified(latency, arm):
            rows.append((Cell(arm), *(time_cell(times.get(name)) for name in names)))
        else:
            why = "not shown: its rankings in the race were not those of its run"
            rows.append((Cell(arm, why), *(Cell("not shown") for _ in names)))
    return Table("Milliseconds to the first answer to a text", ("arm", *names), tuple(rows))


def conditions(latency: Latency) -> Table:
    """Show under which conditions each arm was timed, and what it gains on texts that it knows."""
    race = latency.race
    rows = []
    for arm, times in race.elapsed_ns.items():
        stolen = race.stolen[arm]
        rows.append((
            Cell(arm),
            Cell(str(len(times))),
            Cell(percent(stolen.share), stolen.by),
            Cell(percent(stolen.waited)),
            Cell(number(stolen.preempted)),
            Cell(percent(stolen.worked)),
            _gain(latency.repeats.get(arm), "a cache"),
            _gain(latency.seen.get(arm), "kept answers"),
        ))
    header = (
        "arm",
        "processes",
        "taken by the system",
        "waiting for a processor",
        "preemptions an answer",
        "processor time / wall time",
        "text again / first time",
        "known text / unseen variant",
    )
    return Table("What surrounded the times", header, tuple(rows))


def _gain(estimate: Estimate | None, name: str) -> Cell:
    """Show what an arm gains on a text that it knows, and name it where it is much."""
    if estimate is None:
        return Cell(NOT_MEASURED)
    named = name if estimate.high < CACHED else ""
    return Cell(number(estimate.value), f"{interval(estimate)} {named}".strip())


def budgets(report: ReportInput) -> Table:
    """Show what each budget in milliseconds asked for and found, step by step."""
    rows = [
        (
            Cell(f"{decision.step}: {finding.gate}"),
            Cell(finding.bound),
            Cell(number(finding.estimate.value), interval(finding.estimate))
            if finding.estimate
            else Cell(NOT_MEASURED),
            Cell(finding.verdict.value),
        )
        for decision in report.decisions
        for finding in decision.findings
        if finding.timed and finding.unit == "ms"
    ]
    return Table("Budgets", ("gate", "budget", "ms, scaled", "verdict"), tuple(rows))


def trusted_ratios(report: ReportInput, latency: Latency) -> Mapping[str, Mapping[str, Estimate]]:
    """Keep the ratios of comparisons whose arms were both verified; silence is a no."""
    found = {}
    for name, row in latency.ratios.items():
        of = report.evidence.get(name)
        if of and all(is_verified(latency, side.arm) for side in (of.control, of.candidate)):
            found[name] = row
    return found


def ratios(report: ReportInput, latency: Latency) -> Table:
    """Show candidate / control of each comparison, and each arm in other processes."""
    trusted = trusted_ratios(report, latency)
    rows_of = {
        **{name: trusted.get(name) for name in latency.ratios},
        **{f"{arm} in other processes (A/A)": row for arm, row in latency.aa.items()},
    }
    names = tuple(dict.fromkeys(name for row in rows_of.values() if row for name in row))

    def cell(estimate: Estimate | None) -> Cell:
        return Cell(number(estimate.value), interval(estimate)) if estimate else Cell(NOT_MEASURED)

    rows: list[tuple[Cell, ...]] = []
    for name, row in rows_of.items():
        if row is None:
            why = "not shown: an arm's rankings in the race were not those of its run"
            rows.append((Cell(name, why), *(Cell("not shown") for _ in names)))
        else:
            rows.append((Cell(name), *(cell(row.get(ratio)) for ratio in names)))
    return Table("Time of candidate / control", ("comparison", *names), tuple(rows))


def is_verified(latency: Latency, arm: str) -> bool:
    """Tell whether an arm's times may be shown (method, section 5); silence is a no."""
    return latency.race.verified.get(arm) is True


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
