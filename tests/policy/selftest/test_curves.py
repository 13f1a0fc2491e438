"""The operating curve of a step."""

from __future__ import annotations

import pytest

from harness.policy.selftest.characteristics import TIMES, trace
from tests.policy.tried import RULES, evidence, gate, step

TRIALS = 100


def test_a_step_is_promoted_less_often_the_more_is_lost() -> None:
    asked = step(gate("non_inferior", "wide"), gate("non_inferior", "tight", margin=0.08))
    traced = trace(asked, evidence(), RULES, trials=TRIALS)
    assert traced is not None
    assert (traced.curve.gate, traced.curve.what, traced.curve.gates) == ("tight", "nDCG@10", 2)
    assert [point.times for point in traced.curve.points] == list(TIMES)
    assert [point.truth for point in traced.curve.points] == pytest.approx([0, -0.04, -0.08, -0.16])
    shares = [point.promoted.value for point in traced.curve.points]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9
    assert traced.curve.points[2].promoted.low <= 0.025
    assert shares[3] == 0
    assert traced.alone["tight"].value <= traced.alone["wide"].value


def test_all_gates_must_pass_at_once() -> None:
    few = step(gate("non_inferior"), gate("non_inferior", "slice", slice="odd", margin=0.05))
    traced = trace(few, evidence(), RULES, trials=TRIALS)
    assert traced is not None
    promoted = traced.curve.points[0].promoted.value
    assert promoted <= min(rate.value for rate in traced.alone.values())
    silent = trace(step(gate("non_inferior", min_queries=500)), evidence(), RULES, trials=5)
    assert silent is None


def test_a_step_that_asks_for_gains_is_promoted_more_often_the_more_is_gained() -> None:
    asked = step(gate("superior", margin=0.1), gate("non_inferior"))
    traced = trace(asked, evidence(), RULES, trials=TRIALS)
    assert traced is not None
    shares = [point.promoted.value for point in traced.curve.points]
    assert traced.curve.gate == "superior"
    assert traced.curve.points[3].truth == pytest.approx(0.2)
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[3] > 0.5


def test_a_step_without_a_gate_on_means_has_no_curve() -> None:
    assert trace(step(gate("identity")), evidence(), RULES, trials=5) is None
