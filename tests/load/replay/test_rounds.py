"""Ratios within a round, their median, and an A/A check that no average can talk round."""

from __future__ import annotations

import random
import statistics

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.load.rates import median_of, noise, ratios


@pytest.mark.parametrize(
    ("second", "verdict", "factor"),
    [
        ([100, 100, 100], Verdict.PASS, "1 times"),
        ([100, 149, 70], Verdict.PASS, "1.49 times"),
        ([100, 151, 100], Verdict.INCONCLUSIVE, "1.51 times"),
        ([100, 60, 100], Verdict.INCONCLUSIVE, "1.67 times"),
    ],
)
def test_one_loud_round_is_noise(second: list[int], verdict: Verdict, factor: str) -> None:
    found = noise([100, 100, 100], second, max_noise=1.5)
    assert found.verdict is verdict
    assert factor in found.reason
    assert found.ratios == tuple(one / 100 for one in second)


def test_ratios_are_taken_round_by_round() -> None:
    assert ratios([2, 9], [1, 3]) == (2.0, 3.0)


@pytest.mark.parametrize(("above", "below"), [([1], [1, 2]), ([], []), ([1, 0], [1, 1])])
def test_rounds_that_do_not_match_are_refused(above: list[int], below: list[int]) -> None:
    with pytest.raises(EvidenceError):
        ratios(above, below)


def test_the_median_has_the_interval_of_the_binomial() -> None:
    estimate = median_of([5.0, 1.0, 2.0, 4.0, 3.0, 6.0], confidence=0.95)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (3.5, 1.0, 6.0, 6)
    nine = median_of([float(at) for at in range(9)], confidence=0.95)
    assert nine is not None
    assert (nine.low, nine.high) == (1.0, 7.0)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_few_rounds_have_no_interval(count: int) -> None:
    assert median_of([1.0] * count, confidence=0.95) is None


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = random.Random(2)
    held = []
    for _ in range(1500):
        estimate = median_of([rng.expovariate(1) for _ in range(12)], confidence=0.95)
        assert estimate is not None
        held.append(estimate.low <= 0.6931 <= estimate.high)
    assert statistics.fmean(held) >= 0.95
