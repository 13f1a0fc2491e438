"""Blocks of values in the order of time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.sequential.blocks import NS_PER_S, blocks

VALUES = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
SECONDS = NS_PER_S * np.array([0, 1, 2, 10, 11, 12, 13])


def test_blocks_by_number() -> None:
    found = blocks(VALUES, SECONDS, min_size=3, seconds=0)
    assert found.means.tolist() == [1 / 3, 1.0]
    assert found.sizes.tolist() == [3, 3]
    assert found.seconds.tolist() == [2.0, 2.0]


def test_a_block_lasts_as_long_as_it_must() -> None:
    found = blocks(VALUES, SECONDS, min_size=2, seconds=5)
    assert found.sizes.tolist() == [4]
    assert found.means.tolist() == [0.5]
    assert found.seconds.tolist() == [10.0]


@pytest.mark.parametrize(("count", "min_size"), [(0, 1), (4, 5)])
def test_a_block_that_is_not_over_is_none(count: int, min_size: int) -> None:
    found = blocks(VALUES[:count], SECONDS[:count], min_size=min_size, seconds=0)
    assert len(found.means) == len(found.sizes) == len(found.seconds) == 0
    assert found.rows(3) == []
    assert found.memory == (0.0, 0.0)


STREAM = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 9)), max_size=40)


@given(STREAM, st.integers(1, 6), st.integers(0, 12))
def test_blocks_are_those_cut_by_hand(
    stream: list[tuple[float, int]], min_size: int, seconds: int
) -> None:
    values = np.array([value for value, _ in stream])
    at = NS_PER_S * np.cumsum(np.array([gap for _, gap in stream], dtype=np.int64))
    means, sizes, own = [], [], []
    for one, when in zip(values.tolist(), at.tolist(), strict=True):
        own.append((one, when))
        if len(own) >= min_size and own[-1][1] - own[0][1] >= seconds * NS_PER_S:
            means.append(sum(value for value, _ in own) / len(own))
            sizes.append(len(own))
            own = []
    found = blocks(values, at, min_size=min_size, seconds=seconds)
    assert found.means.tolist() == pytest.approx(means)
    assert found.sizes.tolist() == sizes


@given(STREAM, st.integers(0, 39), st.integers(1, 4))
def test_what_comes_later_changes_no_block(
    stream: list[tuple[float, int]], cut: int, min_size: int
) -> None:
    values = np.array([value for value, _ in stream])
    at = NS_PER_S * np.cumsum(np.array([gap for _, gap in stream], dtype=np.int64))
    whole = blocks(values, at, min_size=min_size, seconds=3)
    part = blocks(values[:cut], at[:cut], min_size=min_size, seconds=3)
    assert whole.sizes[: len(part.sizes)].tolist() == part.sizes.tolist()
    assert whole.means[: len(part.means)].tolist() == part.means.tolist()


def test_rows_have_as_many_values_as_asked() -> None:
    found = blocks(np.zeros(70), np.arange(70), min_size=10, seconds=0)
    assert found.rows(25) == [range(3), range(3, 6), range(6, 7)]


def test_memory_is_the_correlation_with_the_next_block() -> None:
    rng = np.random.default_rng(1)
    alone = blocks(rng.random(4_000), np.arange(4_000), min_size=2, seconds=0)
    assert abs(alone.memory[1]) < 3
    rows = blocks(np.repeat(rng.random(200), 10), np.arange(2_000), min_size=2, seconds=0)
    assert rows.memory[0] == pytest.approx(0.8, abs=0.05)
    assert rows.memory[1] == pytest.approx(0.8 * np.sqrt(1_000), abs=2)


def test_blocks_that_differ_by_rounding_alone_have_no_memory() -> None:
    for value in (0.95, 0.1, 1 / 3):
        values = np.full(100_001, value)
        found = blocks(values, np.arange(len(values)), min_size=147, seconds=0)
        assert found.memory == (0.0, 0.0)
