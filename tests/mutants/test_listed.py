"""The list of planted faults is of this code: each applies once, is code, and names tests."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutants.listed import Mutant, mutants
from tests.source import ROOT

FEWEST, MOST_SURVIVE = 40, 3
named = pytest.mark.parametrize("mutant", mutants(), ids=lambda found: found.id)


@pytest.mark.slow
@named
def test_a_fault_can_be_planted(mutant: Mutant) -> None:
    honest = (ROOT / mutant.file).read_text("utf-8")
    spoilt = mutant.spoilt(honest)
    assert ast.dump(ast.parse(spoilt)) != ast.dump(ast.parse(honest)), "it changes no code"
    assert mutant.file.startswith(("harness/", "engines/"))
    assert mutant.why
    for test in mutant.tests:
        assert (ROOT / test.partition("::")[0]).exists(), f"there is no {test}"


def test_there_are_many_and_each_has_a_name() -> None:
    assert [name for name, times in Counter(one.id for one in mutants()).items() if times > 1] == []
    assert len(mutants()) >= FEWEST


def test_few_are_known_to_survive() -> None:
    assert len([one.id for one in mutants() if one.survives]) <= MOST_SURVIVE


def test_a_text_that_is_not_there_once_is_refused() -> None:
    mutant = Mutant("m", "harness/a.py", "x = 1", "x = 2", ("tests",), "why")
    assert mutant.spoilt("x = 1\n") == "x = 2\n"
    for text in ("x = 3", "x = 1\nx = 1"):
        with pytest.raises(LookupError, match=r"m: in harness/a\.py its text stands [02] times"):
            mutant.spoilt(text)
