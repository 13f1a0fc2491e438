"""Faults that break a promise of docs/contract.md are those of its own tests."""

from __future__ import annotations

from tests.docs.contract import PAGE, rows
from tests.mutants.listed import mutants

ROWS = rows(PAGE.read_text("utf-8"))
TESTS = {row.name: frozenset(row.tests) for row in ROWS}
BREAKING = [one for one in mutants() if one.rows]


def test_each_row_has_a_test_among_those_of_the_fault_and_no_other_is_named() -> None:
    """``test_all.py`` tries each of the tests by itself."""
    for one in BREAKING:
        assert frozenset(one.by) <= frozenset().union(*(TESTS[row] for row in one.rows)), one.id
        assert all(TESTS[row] & frozenset(one.by) for row in one.rows), one.id


def test_each_row_has_a_fault_and_the_page_says_so() -> None:
    assert {row for one in BREAKING for row in one.rows} == TESTS.keys()
    assert f"Each of the {len(ROWS)} rows has a planted fault" in PAGE.read_text("utf-8")
