"""Each promise of docs/trust.md has a planted fault that a test of its own command kills."""

from __future__ import annotations

import re

import pytest

from tests.mutants.listed import mutants
from tests.source import ROOT

PAGE = (ROOT / "docs" / "trust.md").read_text("utf-8")
HEAD = ("promise", "command")


def promised() -> dict[str, tuple[str, ...]]:
    """Give the tests that the command of each promise names; none where it is a benchmark."""
    found, told = {}, False
    for line in PAGE.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split(" | "))
        told = line.startswith("|") and (told or cells == HEAD)
        if told and cells != HEAD and not set(line) <= set("|- "):
            found[cells[0]] = tuple(re.findall(r"tests/[\w/.]+", cells[-1]))
    return found


PROMISES = promised()
PLANTED = [one for one in mutants() if one.promise]


def test_there_are_promises_and_a_benchmark_is_told_from_tests() -> None:
    assert len(PROMISES) > 30
    assert [named for named in PROMISES.values() if not named]
    assert all((ROOT / test).exists() for named in PROMISES.values() for test in named)


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_has_a_fault_that_a_test_of_its_command_kills(promise: str) -> None:
    tests = [test for one in PLANTED if one.promise == promise for test in one.tests]
    assert tests
    named = PROMISES[promise]
    assert not named or [test for test in tests if test.startswith(named)]


def test_a_fault_breaks_a_promise_of_the_page_and_the_page_counts_them() -> None:
    assert {one.promise for one in PLANTED} <= PROMISES.keys()
    assert f"Each of the {len(PROMISES)} promises has a planted fault" in PAGE
    assert f"{len(PLANTED)} in all" in PAGE
