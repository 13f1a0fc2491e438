"""The list of planted faults is of this code: each applies once, is code, and names tests."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.mutants.listed import Mutant, find, mutants, plant
from tests.source import find_test

FEWEST, MOST_SURVIVE = 40, 3
FAULT = Mutant("m", "low", "x => y", (), "why")


@pytest.mark.slow
def test_each_fault_can_be_planted_and_names_what_is_there() -> None:
    for mutant in mutants():
        assert find(mutant), mutant.id
        assert mutant.why, mutant.id
        assert mutant.tests, mutant.id


def test_there_are_many_and_each_has_a_name() -> None:
    assert [name for name, times in Counter(one.id for one in mutants()).items() if times > 1] == []
    assert len(mutants()) >= FEWEST


def test_few_are_known_to_survive() -> None:
    assert len([one.id for one in mutants() if one.survives]) <= MOST_SURVIVE


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
