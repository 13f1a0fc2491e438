"""What a selftest found, written and taken back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.core.scores import Estimate
from harness.policy.tried import Null, Selftest, Tried, from_written

RATE = Estimate(0.02, 0.005, 0.05, 200)
GATE = Tried("tantivy", "Quality", "nDCG@10", 41, -0.02, RATE, None, 0.07, RATE)
NULL = Null("tantivy", "shuffled", {"Quality": "fail"}, as_it_should=True)
FOUND = Selftest("toy", "a policy", 5, 200, 0.025, 0.8, (GATE,), (NULL,))


def test_it_is_taken_back_as_it_was() -> None:
    assert from_written(json.loads(json.dumps(FOUND.written()))) == FOUND


def test_what_is_no_selftest_is_not_taken_for_one() -> None:
    with pytest.raises(KeyError):
        from_written({})
    with pytest.raises(TypeError):
        from_written({**FOUND.written(), "nulls": [{"step": "tantivy"}]})


def test_one_engine_that_knows_nothing_and_passes_spoils_all() -> None:
    passing = replace(NULL, verdicts={"Quality": "pass"}, as_it_should=False)
    assert FOUND.valid
    assert not replace(FOUND, nulls=(NULL, passing)).valid


def test_a_gate_is_found_by_its_step_and_name() -> None:
    assert FOUND.of("tantivy", "Quality") == GATE
    assert FOUND.of("hybrid", "Quality") is None
    assert FOUND.of("tantivy", "Answers") is None
