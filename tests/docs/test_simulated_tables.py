"""A table of a simulation on a page is what its command prints: seeds make every cell reproducible.

A run tries the first. ``--all`` tries each but those of ``TOO_LONG``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.simulate import TABLES

pytestmark = [pytest.mark.slow, pytest.mark.simulation]
PAGES = tuple(sorted(Path("docs").glob("*.md")))
COMMAND = re.compile(r"benchmarks/simulate\.py (\w+) --trials (\d+)$", re.MULTILINE)
FIRST = "series"
TOO_LONG = ("gates",)
"""Simulations that take a processor more than five minutes."""


def told() -> Iterator[tuple[Path, str, int]]:
    """Give each command of a page that names its trials, the quickest first."""
    for page in PAGES:
        for part, trials in COMMAND.findall(page.read_text(encoding="utf-8")):
            if part not in TOO_LONG:
                yield page, part, int(trials)


CASES = sorted(told(), key=lambda case: case[1] != FIRST)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("page", "part", "trials"), CASES, ids=[case[1] for case in CASES])
def test_each_line_that_the_command_prints_stands_on_the_page(
    page: Path, part: str, trials: int
) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    printed = [line for line in TABLES[part].lines(trials) if line]
    assert [line for line in printed if line not in lines] == []
    assert len(printed) > 2, "a head alone"


def test_the_quick_one_is_on_a_page() -> None:
    assert CASES[0][1] == FIRST
