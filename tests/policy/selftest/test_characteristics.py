"""Rates of one gate where the truth is known."""

from __future__ import annotations

from typing import Any

import pytest

from harness.core.gate import Verdict
from harness.gates.base.rules import above
from harness.policy.selftest import characteristics as module
from harness.policy.selftest import requirements
from harness.policy.selftest.characteristics import characteristic
from harness.policy.selftest.operating import OperatingCharacteristic
from harness.policy.selftest.planted import Pattern
from tests.policy.tried import RULES, evidence, gate, step

pytestmark = pytest.mark.slow

TRIALS = 60


def tried(asked: Any, given: Any = None, trials: int = TRIALS) -> OperatingCharacteristic:  # noqa: ANN401
    operating_characteristic = characteristic(
        step(asked), asked, given or evidence(), RULES, trials=trials, alone=None
    )
    assert operating_characteristic is not None
    return operating_characteristic


@pytest.mark.parametrize("rule", ["non_inferior", "superior", "equivalent", "no_slice_harmed"])
def test_a_gate_is_tried_under_every_pattern_and_errs_rarely(rule: str) -> None:
    operating_characteristic = tried(gate(rule))
    assert [one.pattern.partition(" (")[0] for one in operating_characteristic.planted] == [
        str(p) for p in Pattern
    ]
    assert operating_characteristic.convicted(0.025) is None
    assert operating_characteristic.worst is not None
    assert operating_characteristic.worst.promoted.n >= TRIALS
    assert [one.assumed for one in operating_characteristic.planted] == [False, False, False, True]


def test_a_gate_on_slices_is_as_wrong_as_its_worst_slice() -> None:
    operating_characteristic = tried(gate("no_slice_harmed"))
    assert operating_characteristic.what == "nDCG@10 on 2 slices"
    assert all("(nDCG@10 on slice " in one.pattern for one in operating_characteristic.planted)


def test_the_smallest_loss_is_seen_as_often_as_the_power_says() -> None:
    found, more = tried(gate("non_inferior")), tried(gate("non_inferior"), evidence(800))
    assert found.seen is not None
    assert 0.8 <= found.seen.value < 0.98
    assert found.smallest_loss is not None
    assert more.smallest_loss is not None
    assert more.smallest_loss < 0.7 * found.smallest_loss


def test_a_gain_is_held_wrongly_where_it_is_twice_the_bound() -> None:
    far, near = tried(gate("superior", margin=0.2)), tried(gate("superior", margin=0.02))
    assert far.false_hold is not None
    assert near.false_hold is not None
    assert far.false_hold.value < 0.2
    assert near.false_hold.value > 0.8


def test_a_suspicion_is_tried_again_and_a_fault_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict that is counted is the gates' own."""
    monkeypatch.setattr(requirements, "above", lambda found, bound: above(found, bound - 0.05))
    found = tried(gate("non_inferior"))
    worst = found.convicted(0.025)
    assert worst is not None
    assert worst.promoted.n == module.AGAIN * TRIALS
    assert worst.promoted.low > 0.5


def test_a_suspicion_that_is_not_confirmed_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def once(found: Any, bound: float) -> Verdict:  # noqa: ANN401
        calls.append(bound)
        return Verdict.PASS if len(calls) <= 16 else above(found, bound)

    monkeypatch.setattr(requirements, "above", once)
    assert tried(gate("non_inferior")).convicted(0.025) is None


def test_other_rules_and_too_few_queries_are_not_tried() -> None:
    for asked in (gate("non_inferior", min_queries=500), gate("identity")):
        assert characteristic(step(asked), asked, evidence(), RULES, trials=5, alone=None) is None
