"""The tables of promises in docs/contract.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.pages import page

PAGE = page("docs/contract.md")
ROW = re.compile(
    r"^\| (?P<name>[A-Z]-[^|]+) \| (?P<promise>[^|]+) \| (?P<ways>[^|]+) \|", re.MULTILINE
)
WAYS = re.compile(r"`[^`]+`(?:, `[^`]+`)*")


@dataclass(frozen=True, slots=True)
class Row:
    """One promise, and how a user reaches it."""

    name: str
    promise: str
    reached_by: tuple[str, ...]


def rows() -> tuple[Row, ...]:
    """Read the rows of all tables of the page.

    Raises:
        ValueError: a row has no way to it in backticks.
    """
    return tuple(
        Row(one["name"], one["promise"], ways(one["ways"])) for one in ROW.finditer(PAGE.text)
    )


def ways(cell: str) -> tuple[str, ...]:
    """Read a cell of the table.

    Raises:
        ValueError: it is not a list of words in backticks.
    """
    if not WAYS.fullmatch(cell):
        raise ValueError(f"not `command`, `tool(argument)` or `a.documented.call`: {cell}")
    return tuple(cell.strip("`").split("`, `"))
