"""The search finds the rate of an even chance, covers it as often as it says, and gives up."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.load.rates import Highest, highest_rate, trials_an_end


def found(probe: Callable[[float], bool | None], **changed: Any) -> Highest:  # noqa: ANN401
    usual: dict[str, Any] = {
        "capacity": 100.0,
        "floor": 0.04,
        "resolution": 1.1,
        "confidence": 0.95,
        "retries": 2,
    }
    return highest_rate(probe, **usual | changed)


@pytest.mark.parametrize("true", [0.05, 3.0, 40.0, 51.0, 99.0, 101.0, 900.0])
def test_a_sharp_edge_is_found(true: float) -> None:
    highest = found(lambda rate: rate <= true)
    assert highest.verdict is Verdict.PASS
    assert highest.estimate is not None
    assert highest.estimate.low <= true < highest.estimate.high
    assert highest.estimate.high / highest.estimate.low <= 1.1
    assert highest.estimate.low < highest.estimate.value < highest.estimate.high
    assert highest.estimate.n == len(highest.tried)


def noisy(true: float, width: float, rng: random.Random) -> Callable[[float], bool]:
    """Keep the budget with a chance that falls with the logarithm of the rate."""
    return lambda rate: rng.random() < 1 / (1 + math.exp(math.log(rate / true) / width))


@pytest.mark.parametrize("width", [0.02, 0.06])
def test_the_interval_holds_the_even_chance_as_often_as_it_says(width: float) -> None:
    rng = random.Random(5)
    results = [found(noisy(70.0, width, rng)) for _ in range(400)]
    intervals = [one.estimate for one in results if one.estimate]
    held = sum(one.low <= 70 <= one.high for one in intervals)
    assert len(intervals) > 200
    assert held / len(intervals) >= 0.95


def test_the_ends_were_confirmed_by_trials_of_their_own() -> None:
    agree = trials_an_end(0.95)
    assert agree == 8
    assert 2 * 4 * 0.5**agree <= 1 - 0.95 < 2 * 4 * 0.5 ** (agree - 1)
    highest = found(noisy(70.0, 0.05, random.Random(3)))
    assert highest.estimate is not None
    for end, kept in ((highest.estimate.low, True), (highest.estimate.high, False)):
        assert sum(rate == end and said is kept for rate, said in highest.tried) >= agree


def test_a_machine_that_decides_by_chance_is_inconclusive() -> None:
    rng = random.Random(1)
    highest = found(lambda rate: rng.random() < 0.5 if 1 < rate < 1000 else rate < 1)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert highest.estimate is None
    assert "do not agree" in highest.reason


def test_an_end_never_moves_to_where_a_trial_is_too_short_to_say_anything() -> None:
    asked: dict[float, int] = {}

    def first_time_only(rate: float) -> bool:
        asked[rate] = asked.get(rate, 0) + 1
        return asked[rate] == 1 and rate < 60

    highest = found(first_time_only, floor=45.0)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert "do not agree" in highest.reason
    assert min(asked) >= 45


def test_a_budget_that_nothing_keeps_fails() -> None:
    highest = found(lambda _: False)
    assert highest.verdict is Verdict.FAIL
    assert highest.estimate is None
    assert [rate for rate, _ in highest.tried] == pytest.approx([
        50,
        12.5,
        3.125,
        0.78125,
        0.1953125,
        0.048828125,
        0.04,
    ])
    assert "even 0.04 queries" in highest.reason


def test_trials_that_are_too_short_for_the_engine_say_nothing() -> None:
    highest = found(lambda _: True, floor=51.0)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert highest.tried == ()
    assert "Make them longer" in highest.reason


def test_a_budget_that_everything_keeps_is_no_end() -> None:
    highest = found(lambda _: True)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert highest.estimate is None
    assert "keep the budget" in highest.reason


def test_a_trial_that_says_nothing_is_tried_again_and_then_given_up() -> None:
    said: list[bool | None] = [None, None, True]
    highest = found(lambda rate: said.pop(0) if said else rate < 70)
    assert highest.verdict is Verdict.PASS
    assert [each for _, each in highest.tried[:3]] == [None, None, True]
    silent = found(lambda _: None)
    assert silent.verdict is Verdict.INCONCLUSIVE
    assert len(silent.tried) == 3
    assert "3 trials in a row at 50 a second said nothing" in silent.reason


@pytest.mark.parametrize(
    "wrong", [{"capacity": 0.0}, {"resolution": 1.0}, {"confidence": 1.0}, {"confidence": 0.0}]
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(EvidenceError):
        found(lambda _: True, **wrong)
