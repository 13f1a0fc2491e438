"""What a selftest found, written and taken back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.core.scores import Estimate
from harness.policy.selftest.operating import (
    Curve,
    Null,
    OperatingCharacteristic,
    Planted,
    Point,
    Selftest,
    from_written,
)

RATE = Estimate(0.02, 0.005, 0.05, 200)
ONE, OTHER = Planted("scattered", RATE), Planted("rare", Estimate(0.01, 0.001, 0.04, 200))
GATE = OperatingCharacteristic(
    "tantivy", "Quality", "nDCG@10", 41, -0.02, (OTHER, ONE), None, 0.07, RATE
)
NULL = Null("tantivy", "shuffled", {"Quality": "fail"}, as_it_should=True)
CURVE = Curve("tantivy", "Quality", "nDCG@10", 2, (Point(0.0, 0.0, RATE), Point(1.0, -0.02, RATE)))
FOUND = Selftest("toy", "a policy", 5, 200, 0.025, 0.8, (GATE,), (NULL,), (CURVE,))


def test_it_is_taken_back_as_it_was() -> None:
    assert from_written(json.loads(json.dumps(FOUND.written()))) == FOUND


def test_what_is_no_selftest_is_not_taken_for_one() -> None:
    with pytest.raises(KeyError):
        from_written({})
    with pytest.raises(TypeError):
        from_written({**FOUND.written(), "nulls": [{"step": "tantivy"}]})


def test_the_pattern_under_which_a_gate_passed_most_often_speaks_for_it() -> None:
    assert GATE.worst == ONE
    assert replace(GATE, planted=()).worst is None


@pytest.mark.parametrize(("low", "convicted"), [(0.025, False), (0.026, True)])
def test_a_lower_end_above_the_level_convicts(low: float, *, convicted: bool) -> None:
    often = Planted("rare", Estimate(0.155, low, 0.213, 200))
    gate = replace(GATE, planted=(ONE, often))
    assert gate.convicted(0.025) == (often if convicted else None)
    found = replace(FOUND, gates=(gate,))
    assert found.convicted == ((gate,) if convicted else ())
    assert found.valid is not convicted


def test_what_breaks_the_assumptions_of_a_gate_convicts_nobody() -> None:
    often = Planted("bursts", Estimate(0.3, 0.2, 0.4, 200), assumed=True)
    gate = replace(GATE, planted=(OTHER, often))
    assert gate.worst == OTHER
    assert gate.convicted(0.025) is None


def test_a_curve_is_found_by_its_step() -> None:
    assert FOUND.curve("tantivy") == CURVE
    assert FOUND.curve("hybrid") is None


def test_one_engine_that_knows_nothing_and_passes_spoils_all() -> None:
    passing = replace(NULL, verdicts={"Quality": "pass"}, as_it_should=False)
    assert FOUND.valid
    assert not replace(FOUND, nulls=(NULL, passing)).valid


def test_a_gate_is_found_by_its_step_and_name() -> None:
    assert FOUND.of("tantivy", "Quality") == GATE
    assert FOUND.of("hybrid", "Quality") is None
    assert FOUND.of("tantivy", "Answers") is None
