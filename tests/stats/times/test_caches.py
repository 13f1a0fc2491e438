"""What a cache looks like in times."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.stats.times import repeat_ratio, seen_ratio, shared_ratio


def times(seed: int, queries: int = 60) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    hard = np.random.default_rng(99).lognormal(13, 0.5, queries)
    return np.asarray(hard * rng.lognormal(0, 0.1, (4, queries)), dtype=np.int64)


TURNS = (np.arange(60) + np.arange(4)[:, None]) % 3


def test_without_a_cache_a_text_takes_as_long_again() -> None:
    estimate = repeat_ratio(times(1), times(2)[:, :20], confidence=0.95)
    assert estimate is not None
    assert estimate.low < 1 < estimate.high
    assert estimate.n == 20
    apart = shared_ratio(times(1), TURNS, confidence=0.95)
    assert apart is not None
    assert apart.low < 1 < apart.high
    assert apart.n == 60


def test_a_memo_is_seen_text_by_text() -> None:
    """Each text is compared with itself: the first twenty are ten times as hard here."""
    first = times(1)
    first[:, :20] *= 10
    estimate = repeat_ratio(first, first[:, :20] // 100, confidence=0.95)
    assert estimate is not None
    assert estimate.value == pytest.approx(0.01, rel=0.01)


def test_half_a_memo_is_half_way_on_the_scale_of_factors() -> None:
    first = times(1)[:, :40]
    again = first.copy()
    again[:, ::2] //= 10_000
    estimate = repeat_ratio(first, again, confidence=0.95)
    assert estimate is not None
    assert estimate.value == pytest.approx(0.01, rel=0.05)


def test_a_cache_that_arms_share_shows_in_who_came_second() -> None:
    first = np.where(TURNS > 0, times(1) // 1_000, times(1))
    estimate = shared_ratio(first, TURNS, confidence=0.95)
    assert estimate is not None
    assert estimate.high < 0.002


def test_where_nobody_came_second_nothing_is_said() -> None:
    assert shared_ratio(times(1), np.zeros((4, 60), dtype=np.int64), confidence=0.95) is None
    assert repeat_ratio(times(1), times(1)[:, :1], confidence=0.95) is None


@pytest.mark.parametrize("of", [slice(None), slice(1, None)])
def test_what_was_kept_is_seen_in_every_process(of: slice) -> None:
    """Each asks variants of its own; the first may be the one that asks at the depth of a memo."""
    first = times(1)
    count = len(first[of])
    unseen = first[:, :20].copy()
    unseen[of] = unseen[of] * round(50 ** (len(first) / count))
    estimate = seen_ratio(first, unseen, confidence=0.95)
    assert estimate is not None
    assert estimate.value == pytest.approx(0.02, rel=0.01)
    assert estimate.n == 20
    honest = seen_ratio(first, times(2)[:, :20], confidence=0.95)
    assert honest is not None
    assert honest.low < 1 < honest.high
    assert seen_ratio(first, unseen[:, :0], confidence=0.95) is None
    assert seen_ratio(first, unseen[:, :1], confidence=0.95) is None
