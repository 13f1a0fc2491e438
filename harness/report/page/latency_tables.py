"""A race as tables; times of an arm that answered otherwise are not shown."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.scores import Estimate
from harness.report.inputs import Latency, ReportInput
from harness.report.page.tables import NOT_MEASURED
from harness.report.rounding import interval, number, percent
from harness.report.rows import Cell, Table, time_cell

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
