"""The table of promises in docs/contract.md: its rows, and what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.docs import outcomes
from tests.docs.outcomes import Results
from tests.docs.pages import page
from tests.source import find_test

PAGE = page("docs/contract.md").path
HEAD = ("id", "promise", "reached by", "tests", "decision")
ID = re.compile(r"[A-Z]-[A-Z]?\w+(?:\.\w+)*")
TEST = re.compile(r"`(test_\w+)`")
WAYS = re.compile(r"`[^`]+`(?:, `[^`]+`)*")
KEPT = frozenset({"passed"})


@dataclass(frozen=True, slots=True)
class Row:
    """One promise, how a user reaches it, and the tests that show that it is kept."""

    name: str
    line: int
    promise: str
    reached_by: tuple[str, ...]
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} (line {self.line})"


def rows(text: str) -> tuple[Row, ...]:
    """Read the rows of all tables of the page.

    Raises:
        ValueError: a row has not the five columns, no id, no promise, no way to it, or no test.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("|") or set(line) <= set("|- "):
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if tuple(cells) == HEAD:
            continue
        tests = tuple(TEST.findall(cells[3])) if len(cells) == len(HEAD) else ()
        named = len(tests) == cells[3].count("`") / 2 if tests else False
        if not named or not ID.fullmatch(cells[0]) or not cells[1]:
            raise ValueError(f"line {number}: not | {' | '.join(HEAD)} |: {line}")
        try:
            reached_by = ways(cells[2])
        except ValueError as exc:
            raise ValueError(f"line {number}: {exc}") from exc
        found.append(Row(cells[0], number, cells[1], reached_by, tests))
    return tuple(found)


def ways(cell: str) -> tuple[str, ...]:
    """Read a cell of the table.

    Raises:
        ValueError: it is not a list of words in backticks.
    """
    if not WAYS.fullmatch(cell):
        raise ValueError(f"not `command`, `tool(argument)` or `a.documented.call`: {cell}")
    return tuple(cell.strip("`").split("`, `"))


def repeated(found: Sequence[Row]) -> list[str]:
    """Name the rows whose id stands above already."""
    names = [row.name for row in found]
    return [str(row) for at, row in enumerate(found) if row.name in names[:at]]


def nodes(found: Iterable[Row], root: Path) -> Iterator[str]:
    """Yield where the tests of rows stand, without those that are not there."""
    for test in {test for row in found for test in row.tests}:
        with suppress(LookupError):
            yield find_test(test, root)


def known(found: Iterable[Row], root: Path, seen: Results) -> Results:
    """Give how the tests of all rows came out: as was seen, and else by running them."""
    left = set(nodes(found, root)) - set(seen)
    if not left:
        return seen
    with TemporaryDirectory() as scratch:
        return {**seen, **outcomes.run(left, root, Path(scratch))}


def faults(row: Row, root: Path, came_out: Results) -> list[str]:
    """Say of each test of a row why it does not show the promise; nothing where all pass."""
    said = []
    for test in row.tests:
        try:
            ways = came_out.get(find_test(test, root), frozenset())
        except LookupError as exc:
            said.append(f"{row}: {exc}")
            continue
        if not ways:
            said.append(f"{row}: {test} did not run")
        elif ways != KEPT:
            said.append(f"{row}: {test} {', '.join(sorted(ways - KEPT))}")
    return said
