"""The window: what lies below it stays below it, and no score is no number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.contract import EngineError, FeatureUnavailable
from engines.rerank.cross_encoder import LEAST, Reranked, Unavailable, joined

SHARES = st.floats(0, 1)
FUSED = st.lists(st.integers(1, 999).map(lambda n: n / 1_000), unique=True, max_size=8)


def window(*scores: float) -> list[Reranked]:
    return [Reranked(score, -score) for score in scores]


@given(st.lists(SHARES, min_size=1, max_size=8), FUSED)
def test_all_scores_are_shares_and_the_rest_keeps_its_order_below(
    scores: list[float], rest: list[float]
) -> None:
    below = sorted(rest, reverse=True)
    found = joined(window(*scores), below)
    floor = min(one.score for one in found.window)
    assert all(0.0 <= one.score <= 1.0 for one in found.window)
    assert list(found.below) == sorted(set(found.below), reverse=True)
    assert all(0.0 < score < floor for score in found.below)
    ups = [a.score <= b.score for a in found.window for b in found.window]
    assert [a <= b for a in scores for b in scores] == ups or min(scores) < LEAST


def test_a_score_stands_as_it_is_where_there_is_room_or_nothing_below() -> None:
    assert joined(window(0.9, 0.2), [0.5]) == (tuple(window(0.9, 0.2)), (0.1,))
    assert joined(window(0.9, 0.0), []).window == tuple(window(0.9, 0.0))
    assert joined([], [0.5]).below == (0.5,)


def test_a_window_that_reaches_down_to_nothing_is_lifted_and_its_raw_scores_are_not() -> None:
    found = joined(window(1.0, 0.5, 0.0), [0.5, 0.25])
    assert [one.score for one in found.window] == pytest.approx([1.0, 0.5, LEAST], abs=LEAST)
    assert [one.raw_score for one in found.window] == [-1.0, -0.5, 0.0]
    assert found.below == pytest.approx((LEAST / 2, LEAST / 4))


@pytest.mark.parametrize(
    "bad",
    [
        Reranked(math.nan, 0.0),
        Reranked(1.5, 0.0),
        Reranked(-0.1, 0.0),
        Reranked(0.5, math.inf),
        Reranked(0.5, math.nan),
    ],
)
def test_a_score_that_is_no_share_is_an_engine_error(bad: Reranked) -> None:
    with pytest.raises(EngineError, match="the reranker scored"):
        joined([Reranked(0.5, 0.0), bad], [])


@pytest.mark.parametrize("kind", [FeatureUnavailable, EngineError])
def test_an_absent_one_says_why(kind: type[FeatureUnavailable]) -> None:
    with pytest.raises(kind, match="no such folder"):
        Unavailable(kind("no such folder")).rerank("text", [1], [0.5])
