"""The confidence sequence of a whole stream: the one of ``betting``, with its ends exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.sequential.anytime import FORESIGHT, anytime, stakes_of, values_needed
from harness.stats.sequential.betting import STEPS, BettingSequence, Stakes
from tests.stats.sequential.test_betting import capital

UNIT = {"confidence": 0.95, "least": 0.0, "most": 1.0}


def interval(values: list[float]) -> Estimate:
    return anytime(np.array(values), **UNIT)


def stepped(values: list[float]) -> Estimate:
    betting_sequence = BettingSequence(**UNIT)
    for value in values:
        betting_sequence.update(value)
    return betting_sequence.interval()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=60))
def test_it_is_the_sequence_that_takes_one_value_after_the_other(values: list[float]) -> None:
    exact, stepwise = interval(values), stepped(values)
    assert exact.low == pytest.approx(stepwise.low, abs=1.01 / STEPS)
    assert exact.high == pytest.approx(stepwise.high, abs=1.01 / STEPS)
    assert stepwise.low <= exact.low + 1e-9
    assert exact.high - 1e-9 <= stepwise.high
    assert exact.value == pytest.approx(np.mean(values))
    assert exact.n == len(values)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from([0.0, 0.2, 0.7, 1.0]), min_size=8, max_size=40))
def test_an_end_is_where_a_gambler_was_rich_once(values: list[float]) -> None:
    estimate = interval(values)

    def richest(mean: float, side: int) -> float:
        return max(capital(values[:count], mean, side) for count in range(1, len(values) + 1))

    if estimate.low > 0:
        assert richest(estimate.low - 1e-9, 1) >= 40 > richest(estimate.low + 1e-9, 1)
    if estimate.high < 1:
        assert richest(estimate.high + 1e-9, -1) >= 40 > richest(estimate.high - 1e-9, -1)


def test_bets_are_those_of_one_value_after_the_other() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 50)
    one, bets = Stakes(0.95, streams=1), []
    for value in values:
        bets += one.next().tolist()
        one.learn(np.array([value]))
    np.testing.assert_allclose(stakes_of(values, 0.95), bets, rtol=1e-12)


def test_another_range_is_the_same_stretched() -> None:
    values = np.random.default_rng(3).uniform(0, 1, 200)
    plain = anytime(values, **UNIT)
    wide = anytime(2 * values - 1, confidence=0.95, least=-1, most=1)
    assert wide.low == pytest.approx(2 * plain.low - 1, abs=1e-9)
    assert wide.high == pytest.approx(2 * plain.high - 1, abs=1e-9)


def test_a_mean_that_moved_leaves_none() -> None:
    estimate = interval([0.0] * 500 + [1.0] * 500)
    assert estimate.low > estimate.high


def test_what_is_needed_is_what_settles_it() -> None:
    """Zeros against 5 %: enough once the count is reached, and not one before."""
    needed = values_needed(np.zeros(20), bound=0.05, **UNIT)
    assert needed is not None
    assert interval([0.0] * needed).high < 0.05 <= interval([0.0] * (needed - 1)).high
    assert values_needed(np.ones(20), bound=0.95, **UNIT) == needed


def test_what_is_needed_repeats_the_values_in_their_order() -> None:
    values = (np.random.default_rng(3).random(100) < 0.03).astype(np.float64)
    needed = values_needed(values, bound=0.05, **UNIT)
    assert needed is not None
    assert needed > 100
    more = np.tile(values, 1 + needed // 100)
    assert anytime(more[:needed], **UNIT).high < 0.05 <= anytime(more[: needed - 1], **UNIT).high


def test_a_mean_on_the_bound_is_never_settled() -> None:
    values = np.tile([0.0, 1.0], 20)
    assert values_needed(values, bound=0.5, **UNIT) is None
    assert FORESIGHT >= 2


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(EvidenceError, match="no value came"):
        interval([])
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(EvidenceError, match="outside"):
            interval([0.5, value])
    with pytest.raises(EvidenceError, match="no sequence"):
        anytime(np.zeros(3), confidence=1.0, least=0, most=1)
