"""What went worse than it should have, in a log of shadow traffic: as rows of words."""

from __future__ import annotations

from harness.core.printable import one_line
from harness.report.rows import Cell, Table
from harness.shadow.watch.summary import Summary

REASON = 160
"""Longest text of a reason, in characters."""
UNTIMED = "the control's time is not known: several answers came at once, or one came early"


def troubles(summary: Summary) -> Table:
    """Show degradations, and why queries, attempts and times were not compared."""
    rows = [
        (Cell(f"{arm}: {kind}"), Cell(f"{count:,}"), Cell("degradation"))
        for (arm, kind), count in sorted(
            summary.degradations.items(), key=lambda item: (-item[1], item[0])
        )
    ]
    rows += [
        (Cell("not taken", one_line(cause, REASON)), Cell(f"{count:,}"), Cell("no attempt"))
        for cause, count in sorted(summary.not_taken.items(), key=lambda item: (-item[1], item[0]))
    ]
    rows += [
        (Cell(kind, one_line(reason, REASON)), Cell(f"{count:,}"), Cell("not compared"))
        for (kind, reason), count in sorted(
            summary.reasons.items(), key=lambda item: (-item[1], item[0])
        )
    ]
    if count := summary.untimed:
        rows.append((Cell("time", UNTIMED), Cell(f"{count:,}"), Cell("no time compared")))
    return Table("What went worse than it should have", ("what", "times", "kind"), tuple(rows))
