"""Blocks of values in whole periods, and bets on their mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.stats.sequential import BLOCK_SHARES, NS_PER_S, Blocks, Floats, blocks, blocks_needed

STREAM = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 9)), max_size=60)


def cut(
    values: np.ndarray, seconds: np.ndarray, block_s: float = 3, period_s: float = 20
) -> Blocks:
    return blocks(values, NS_PER_S * seconds, block_s=block_s, period_s=period_s)


def even(means: list[float], periods: int, each: int = 1) -> Blocks:
    """Give blocks of one size, so many periods of the same course."""
    sizes = np.full(len(means) * periods, each)
    slot = np.tile(np.arange(len(means)), periods)
    period = np.repeat(np.arange(periods), len(means))
    return Blocks(np.tile(means, periods) * sizes, sizes, period, slot, periods)


@given(STREAM)
def test_blocks_are_those_cut_by_hand(stream: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in stream])
    at = np.cumsum(np.array([gap for _, gap in stream], dtype=np.int64))
    found = cut(values, at)
    whole = (at[-1] - at[0]) // 20 if stream else 0
    by_hand: dict[tuple[int, int], list[float]] = {}
    for value, when in zip(values.tolist(), (at - at[0]).tolist() if stream else [], strict=True):
        if when < 20 * whole:
            by_hand.setdefault((when // 20, when % 20 // 3), []).append(value)
    assert found.periods == whole
    assert [*zip(found.period.tolist(), found.slot.tolist(), strict=True)] == [*by_hand]
    assert found.sums.tolist() == [sum(one) for one in by_hand.values()]
    assert found.sizes.tolist() == [len(one) for one in by_hand.values()]


@given(STREAM, st.integers(0, 60))
def test_what_comes_later_changes_no_period(stream: list[tuple[float, int]], kept: int) -> None:
    values = np.array([value for value, _ in stream])
    at = np.cumsum(np.array([gap for _, gap in stream], dtype=np.int64))
    part, whole = cut(values[:kept], at[:kept]), cut(values, at)
    assert whole.sums[: len(part.sums)].tolist() == part.sums.tolist()
    assert whole.sizes[: len(part.sums)].tolist() == part.sizes.tolist()


def test_the_capital_is_the_product_by_hand() -> None:
    found = even([0.5, 1.0, 0.25], periods=2, each=4)
    low, mean = 0.3, found.mean
    assert mean == pytest.approx(1.75 / 3)
    made = np.mean([
        np.prod([1 + share * (x / low - 1) for x in [0.5, 1.0, 0.25] * 2]) for share in BLOCK_SHARES
    ])
    at = 1 - 2 / made
    assert found.surely(low, above=True, confidence=at - 1e-9)
    assert not found.surely(low, above=True, confidence=at + 1e-9)
    assert found.interval(at).low == pytest.approx(low)


def test_the_interval_of_what_is_turned_around_is_turned_around() -> None:
    rng = np.random.default_rng(1)
    sizes, period = rng.integers(1, 9, 40), np.repeat([0, 1], 20)
    sums, slot = sizes * rng.random(40), np.tile(np.arange(20), 2)
    up = Blocks(sums, sizes, period, slot, 2).interval(0.9)
    down = Blocks(sizes - sums, sizes, period, slot, 2).interval(0.9)
    assert (down.low, down.high) == pytest.approx((1 - up.high, 1 - up.low))
    assert up.low < up.value < up.high


def test_a_block_counts_by_its_values() -> None:
    busy = Blocks(np.array([0.0, 90.0]), np.array([10, 90]), np.zeros(2, int), np.arange(2), 1)
    assert busy.mean == 0.9


def test_a_larger_block_later_ends_who_stakes_too_much() -> None:
    """A stake beyond the capital would be a debt, and no bound."""
    sizes = np.array([1] * 60 + [9] * 2)
    late = Blocks(sizes * 1.0, sizes, np.repeat([0, 1], 31), np.tile(np.arange(31), 2), 2)
    assert late.interval(0.95).low < even([1.0] * 31, 2).interval(0.95).low


def test_equal_blocks_without_a_fault() -> None:
    for room in (0.01, 0.05, 0.3):
        needed = blocks_needed(room, 0.95)
        assert even([0.0] * needed, 1).surely(room, above=False, confidence=0.95)
        short = math.floor(math.log(0.025) / math.log1p(-room))
        assert not even([0.0] * short, 1).surely(room, above=False, confidence=0.95)


def test_periods_that_are_needed_settle_it() -> None:
    seen = even([0.0] * 30 + [0.1] * 2, 2)
    needed = seen.periods_needed(0.05, 0.95)
    assert needed is not None
    assert needed > 2
    assert even([0.0] * 30 + [0.1] * 2, needed).surely(0.05, above=False, confidence=0.95)
    assert even([0.05] * 10, 2).periods_needed(0.05, 0.95) is None


def test_memory_is_of_bursts_and_not_of_the_course_of_a_day() -> None:
    rng = np.random.default_rng(2)

    def memory(rows: Floats) -> tuple[float, float]:
        periods, places = rows.shape
        sizes = np.ones(rows.size, dtype=np.int64)
        period = np.repeat(np.arange(periods), places)
        return Blocks(
            rows.ravel(), sizes, period, np.tile(np.arange(places), periods), periods
        ).memory

    alone = rng.random((10, 200))
    assert abs(memory(alone)[1]) < 3
    course = alone / 2 + np.linspace(0, 0.5, 200)
    assert abs(memory(course)[1]) < 3
    bursts = np.repeat(rng.random((10, 20)), 10, axis=1)
    assert memory(bursts)[0] > 0.7
    assert memory(bursts)[1] > 3
    assert memory(np.zeros((3, 4))) == (0.0, 0.0)


def test_a_value_that_is_no_share_is_refused() -> None:
    with pytest.raises(EvidenceError, match=r"1\.5 lies outside"):
        cut(np.array([1.5]), np.zeros(1, dtype=np.int64))
