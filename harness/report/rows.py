"""Tables of words: what every page, comment and terminal shows figures in."""

from __future__ import annotations

from dataclasses import dataclass


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
