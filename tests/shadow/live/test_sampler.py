"""The sampler is even, keeps its rate and picks the same queries again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.shadow.limits import MILLION, Sampler, Sampling

rates = st.integers(0, MILLION)
seeds = st.integers(0, 2**32)


def off_by(picked: list[bool], rate: int) -> int:
    """Most millionths by which any window misses its share."""
    low = high = at = 0
    for one in picked:
        at += MILLION * one - rate
        low, high = min(low, at), max(high, at)
    return high - low


@given(rate=rates, seed=seeds, start=st.integers(1, 10**12))
def test_every_window_has_its_share_but_for_one(rate: int, seed: int, start: int) -> None:
    sampler = Sampler(rate=rate, seed=seed)
    assert off_by([sampler.takes(start + n) for n in range(300)], rate) <= MILLION


def test_the_share_is_the_rate() -> None:
    sampler = Sampler(rate=97_003, seed=1)
    assert sum(sampler.takes(n) for n in range(1, MILLION + 1)) == 97_003
    everything, nothing = Sampler(rate=MILLION, seed=1), Sampler(rate=0, seed=1)
    assert all(everything.takes(n) for n in range(1, 100))
    assert not any(nothing.takes(n) for n in range(1, 100))


def test_the_same_seed_picks_the_same_and_another_seed_others() -> None:
    def picks(seed: int) -> list[int]:
        sampler = Sampler(rate=10_000, seed=seed)
        return [n for n in range(1, 1_001) if sampler.takes(n)]

    assert picks(7) == picks(7)
    assert len({tuple(picks(seed)) for seed in range(20)}) > 10


@pytest.mark.parametrize("rate", [-1, MILLION + 1])
def test_a_share_beyond_all_is_refused(rate: int) -> None:
    with pytest.raises(ValidationError, match="rate"):
        Sampling(rate=rate, seed=1)
