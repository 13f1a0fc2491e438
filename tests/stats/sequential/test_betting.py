"""Confidence sequences of live traffic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.stats.sequential import BettingSequence, Stakes, gains


def after(values: list[float], confidence: float = 0.95) -> BettingSequence:
    betting_sequence = BettingSequence(confidence=confidence, least=0, most=1)
    for value in values:
        betting_sequence.update(value)
    return betting_sequence


def capital(values: list[float], mean: float, side: int) -> float:
    """Capital of one gambler as the paper writes it, one value after the other."""
    wealth, total, squares = 1.0, 0.5, 0.25
    for at, value in enumerate(values, start=1):
        bet = math.sqrt(2 * math.log(2 / 0.05) / (squares / at * at * math.log(1 + at)))
        room = mean if side > 0 else 1 - mean
        bet = bet if room == 0 else min(bet, 0.75 / room)
        wealth *= 1 + side * bet * (value - mean)
        total += value
        squares += (value - total / (at + 1)) ** 2
    return wealth


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=40))
def test_an_end_is_where_a_gambler_gets_rich(values: list[float]) -> None:
    lows, highs = [0.0], [1.0]
    for count in range(1, len(values) + 1):
        seen, step = values[:count], 1 / 1_000
        found = after(seen).interval()
        lows.append(found.low)
        highs.append(found.high)
        if found.low > max(lows[:-1]):
            assert capital(seen, found.low, 1) >= 40 > capital(seen, found.low + step, 1)
        if found.high < min(highs[:-1]):
            assert capital(seen, found.high, -1) >= 40 > capital(seen, found.high - step, -1)
    assert lows == sorted(lows)
    assert highs == sorted(highs, reverse=True)


def test_it_closes_in_on_the_mean() -> None:
    values = np.random.default_rng(2).beta(2, 6, 2_000).tolist()
    early, late = after(values[:50]).interval(), after(values).interval()
    assert early.low <= late.low < 0.25 < late.high <= early.high
    assert late.high - late.low < 0.05
    assert late.value == pytest.approx(np.mean(values))
    assert late.n == 2_000


def test_a_small_spread_is_used() -> None:
    rng = np.random.default_rng(2)
    calm = after(rng.uniform(0.45, 0.55, 300).tolist()).interval()
    wild = after(rng.choice([0.0, 1.0], 300).tolist()).interval()
    assert calm.high - calm.low < 0.4 * (wild.high - wild.low)


def test_only_failures_and_only_successes_reach_the_edge() -> None:
    assert after([0.0] * 400).interval().high < 0.03
    assert after([0.0] * 400).interval().low == 0.0
    assert after([1.0] * 400).interval().low > 0.97
    assert after([1.0] * 400).interval().high == 1.0


def test_another_range_is_the_same_sequence_stretched() -> None:
    values = np.random.default_rng(3).uniform(0, 1, 200)
    plain = after(values.tolist()).interval()
    wide = BettingSequence(confidence=0.95, least=-1, most=1)
    for value in values:
        wide.update(float(2 * value - 1))
    found = wide.interval()
    assert found.value == pytest.approx(2 * plain.value - 1)
    assert (found.low, found.high) == pytest.approx((2 * plain.low - 1, 2 * plain.high - 1))


def test_more_confidence_is_wider() -> None:
    values = np.random.default_rng(3).uniform(0, 1, 200).tolist()
    sure, unsure = after(values, 0.99).interval(), after(values, 0.8).interval()
    assert sure.low < unsure.low < unsure.high < sure.high


def test_many_streams_bet_as_each_alone() -> None:
    values = np.random.default_rng(3).uniform(0, 1, (30, 4))
    together, alone = Stakes(0.95, streams=4), [Stakes(0.95, streams=1) for _ in range(4)]
    for row in values:
        bets = np.concatenate([one.next() for one in alone])
        assert together.next().tolist() == bets.tolist()
        together.learn(row)
        for one, value in zip(alone, row, strict=True):
            one.learn(np.array([value]))


def test_looking_after_every_query_is_wrong_as_rarely_as_it_says() -> None:
    """The truth is left out at any of 1,000 looks by at most 5 % of 600 streams, chance aside."""
    rng = np.random.default_rng(5)
    for mean in (0.03, 0.5):
        stakes, out = Stakes(0.95, streams=600), np.zeros(600, dtype=bool)
        higher, lower = np.zeros(600), np.zeros(600)
        for _ in range(1_000):
            values = (rng.random(600) < mean).astype(np.float64)
            ahead, behind = gains(stakes.next(), values, np.array([mean]))
            higher, lower = higher + ahead, lower + behind
            out |= np.maximum(higher, lower) >= math.log(stakes.wealth)
            stakes.learn(values)
        assert out.mean() <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 600)
        assert out.any()


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_value_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(EvidenceError, match="outside"):
        after([0.5, value])


def test_what_cannot_be_a_sequence_is_refused() -> None:
    with pytest.raises(EvidenceError, match="no sequence"):
        BettingSequence(confidence=0.95, least=1, most=1)
    with pytest.raises(EvidenceError, match="no sequence"):
        BettingSequence(confidence=1.0, least=0, most=1)
    with pytest.raises(EvidenceError, match="no value"):
        after([]).interval()
