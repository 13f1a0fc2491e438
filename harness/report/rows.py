"""Tables of words: what every page, comment and terminal shows figures in."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.scores import Estimate
from harness.report.rounding import interval_in, milliseconds


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in words and, below it, how sure we are."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Header, and rows whose first cell names the row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def time_cell(estimate: Estimate | None) -> Cell:
    """Show nanoseconds in milliseconds with their interval; words where there are too few."""
    if estimate is None:
        return Cell("too few times")
    return Cell(milliseconds(estimate.value), interval_in(estimate, "ns"))
