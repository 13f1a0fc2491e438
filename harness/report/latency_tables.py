"""A race as rows of words; times of an arm that answered otherwise are not shown."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.scores import Estimate
from harness.report.inputs import Latency, ReportInput
from harness.report.rounding import interval, interval_ms, milliseconds, number
from harness.report.tables import NOT_MEASURED, Cell, Table


def percentiles(latency: Latency) -> Table:
    """Show the times of each arm whose rankings were verified, and words for the others."""
    shown = {arm: row for arm, row in latency.percentiles.items() if is_verified(latency, arm)}
    names = tuple(dict.fromkeys(name for row in shown.values() for name in row))

    def cell(found: Estimate | None) -> Cell:
        if found is None:
            return Cell("too few times")
        return Cell(milliseconds(found.value), interval_ms(found))

    rows: list[tuple[Cell, ...]] = []
    for arm, times in latency.percentiles.items():
        if is_verified(latency, arm):
            rows.append((Cell(arm), *(cell(times.get(name)) for name in names)))
        else:
            why = "not shown: its rankings in the race were not those of its run"
            rows.append((Cell(arm, why), *(Cell("not shown") for _ in names)))
    return Table("Milliseconds per query", ("arm", *names), tuple(rows))


def trusted_ratios(report: ReportInput, latency: Latency) -> Mapping[str, Mapping[str, Estimate]]:
    """Keep the ratios of comparisons whose arms were both verified; silence is a no."""
    found = {}
    for name, row in latency.ratios.items():
        of = report.evidence.get(name)
        if of and all(is_verified(latency, side.arm) for side in (of.control, of.candidate)):
            found[name] = row
    return found


def ratios(report: ReportInput, latency: Latency) -> Table:
    """Show candidate / control of each comparison, and each arm against itself."""
    trusted = trusted_ratios(report, latency)
    rows_of = {
        **{name: trusted.get(name) for name in latency.ratios},
        **{f"{arm} against itself (A/A)": row for arm, row in latency.twins.items()},
    }
    names = tuple(dict.fromkeys(name for row in rows_of.values() if row for name in row))

    def cell(found: Estimate | None) -> Cell:
        return Cell(number(found.value), interval(found)) if found else Cell(NOT_MEASURED)

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
