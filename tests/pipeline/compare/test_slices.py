"""Differences by slice are paired, and queries of one intent are drawn together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.pipeline.report_inputs import slice_differences
from tests.make import gate_inputs

CONTROL = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
CANDIDATE = CONTROL + np.array([0.1, 0.3, 0.0, -0.2, -0.2, 0.0])
SLICES = {
    "up": frozenset({"q0000", "q0001", "q0002"}),
    "down": frozenset({"q0003", "q0004"}),
    "alone": frozenset({"q0005"}),
    "strange": frozenset({"q9999"}),
}


def test_each_slice_has_the_mean_difference_of_its_queries() -> None:
    evidence = gate_inputs.scored(CONTROL, CANDIDATE, slices=SLICES)
    found = slice_differences({"first": evidence, "again": evidence}, "nDCG@10", gate_inputs.RULES)
    assert found["first"] == found["again"]
    assert set(found["first"]) == {"up", "down"}
    up, down = found["first"]["up"], found["first"]["down"]
    assert up.value == pytest.approx(0.4 / 3)
    assert up.n == 3
    assert up.low < up.value < up.high
    assert down.value == pytest.approx(-0.2)
    assert -1 < down.low < down.value < down.high < 1


def test_queries_of_one_intent_are_no_two_opinions() -> None:
    evidence = gate_inputs.scored(CONTROL, CANDIDATE, slices=SLICES)
    one = replace(evidence, clusters={"q0003": "same", "q0004": "same"})
    assert set(slice_differences({"first": one}, "nDCG@10", gate_inputs.RULES)["first"]) == {"up"}
