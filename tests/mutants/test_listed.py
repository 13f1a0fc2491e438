"""The list of planted faults is of this code: each applies once, is code, and names tests."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace

import pytest

from tests.mutants.listed import Mutant, mutants
from tests.mutants.plant import find, plant, spots
from tests.source import find_test

FEWEST, MOST_SURVIVE = 40, 3
named = pytest.mark.parametrize("mutant", mutants(), ids=lambda found: found.id)
FAULT = Mutant("m", "low", "x => y", (), "why")
CODE = """
def low(x, y):
    # not counted
    with held(x):
        print('a', end='')
    return -x if x else y

class Bounds:
    most: int = 3
    def low(self): return [self.x, self.y]
"""


@pytest.mark.slow
@named
def test_a_fault_can_be_planted(mutant: Mutant) -> None:
    assert find(mutant).startswith(("harness/", "engines/"))
    assert mutant.why
    assert mutant.tests


def test_there_are_many_and_each_has_a_name() -> None:
    assert [name for name, times in Counter(one.id for one in mutants()).items() if times > 1] == []
    assert len(mutants()) >= FEWEST


def test_few_are_known_to_survive() -> None:
    assert len([one.id for one in mutants() if one.survives]) <= MOST_SURVIVE


@pytest.mark.parametrize(
    ("at", "edit", "said"),
    [
        ("Bounds.most", "3 => 4", "most: int = 4"),
        ("low", "-x => (-2 * x)", "return -2 * x if x else y"),
        ("low", 'end="" => end=1', "print('a', end=1)"),
        ("low", 'end="" =>', "print('a')"),
        ("Bounds.low", "self.x =>", "return [self.y]"),
        ("low", 'print("a", end="")\n=>\nraise', "    with held(x):\n        raise\n"),
        ("low", "with held(x):\n    ...\n=>\n...", "\n    print('a', end='')\n    return"),
        (
            "low",
            "with held(x):\n    ...\n=>\ntry:\n    ...\nfinally: y()",
            "    try:\n        print(",
        ),
    ],
)
def test_an_edit_is_of_code_and_not_of_text(at: str, edit: str, said: str) -> None:
    tree = ast.parse(CODE)
    (spot,) = spots(replace(FAULT, at=at, edit=edit), tree)
    spot.put()
    assert said in ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.parametrize(
    ("at", "edit", "times"),
    [
        ("low", "x => y", 3),
        ("low", "self.x => y", 0),
        ("high", "x => y", 0),
        ("most", "3 => 4", 0),
        ("low", "with held(y):\n    ...\n=>\n...", 0),
    ],
)
def test_code_stands_so_often_below_a_name(at: str, edit: str, times: int) -> None:
    assert len(list(spots(replace(FAULT, at=at, edit=edit), ast.parse(CODE)))) == times


def test_what_is_not_there_once_is_refused_and_else_is_planted_alone() -> None:
    fault = replace(FAULT, at="harness.core.gate:Verdict.PASS", edit="'pass' => 'fail'")
    (planted,) = plant(fault).items()
    assert planted[0] == "harness/core/gate.py"
    assert "PASS = 'fail'" in planted[1]
    for at, edit in {"Verdict.PASS": "'fail' => 1", "Verdict.FAIL": "'fail' => 'fail'"}.items():
        with pytest.raises(LookupError, match=r"m: in Verdict\..* its code stands [01] times"):
            plant(replace(FAULT, at=at, edit=edit))
    assert find_test("test_few_are_known_to_survive").startswith("tests/mutants/test_listed.py::")
    with pytest.raises(LookupError, match="there is no test_nothing"):
        find_test("test_nothing")
