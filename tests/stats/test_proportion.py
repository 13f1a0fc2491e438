"""Exact intervals of shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.core.errors import EvidenceError
from harness.stats.interval import share, size_for


@given(st.integers(1, 400), st.data())
def test_agrees_with_scipy(of: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, of))
    theirs = stats.binomtest(count, of).proportion_ci(0.95, method="exact")
    ours = share(count, of, confidence=0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert (ours.value, ours.n) == (count / of, of)


def test_none_of_many_is_not_certainly_none() -> None:
    found = share(0, 100, confidence=0.95)
    assert found.low == 0.0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 100))


@pytest.mark.parametrize(("count", "of"), [(0, 0), (3, 2), (-1, 5)])
def test_what_is_no_share_is_refused(count: int, of: int) -> None:
    with pytest.raises(EvidenceError, match="is not a share"):
        share(count, of, confidence=0.95)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_size_for_is_the_fewest(count: int) -> None:
    enough = size_for(count, ceiling=0.02, confidence=0.95)
    assert share(count, enough, confidence=0.95).high < 0.02
    assert share(count, enough - 1, confidence=0.95).high >= 0.02


def test_no_size_shows_a_share_below_nothing() -> None:
    with pytest.raises(EvidenceError, match="no number of queries"):
        size_for(0, ceiling=0.0, confidence=0.95)
