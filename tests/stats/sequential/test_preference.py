"""The sign test of sessions, and how often interleaving is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from benchmarks.simulated_clicks import Users, clicked
from harness.core.errors import EvidenceError
from harness.stats.sequential.anytime import preference, sign_test


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 0), (0, 7), (30, 18), (6, 6), (90, 101)])
def test_the_sign_test_is_the_binomial_one(wins: int, losses: int) -> None:
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(expected)


def test_ties_are_in_the_sequence_and_not_in_the_test() -> None:
    signs = np.random.default_rng(1).permutation([1] * 40 + [-1] * 10 + [0] * 50)
    found = preference(signs, confidence=0.95)
    assert (found.wins, found.losses, found.ties) == (40, 10, 50)
    assert found.p_value == sign_test(40, 10)
    assert found.estimate.value == pytest.approx(0.3)
    assert found.estimate.low < 0.3 < found.estimate.high


def test_what_is_no_sign_is_refused() -> None:
    with pytest.raises(EvidenceError, match="a sign other than"):
        preference(np.array([2]), confidence=0.95)
    with pytest.raises(EvidenceError, match="no value came yet"):
        preference(np.array([], dtype=np.int64), confidence=0.95)


@pytest.mark.slow
def test_clicks_find_the_better_arm_and_not_the_worse() -> None:
    found = clicked(0.6, 400, 20)
    assert found.mixed[0] > 0.7
    assert found.mixed[1] == 0
    turned = clicked(-0.9, 400, 20)
    assert turned.mixed[1] > 0.5
    assert turned.mixed[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("users", [Users(), Users(by_rank_alone=True)])
def test_equal_arms_are_rarely_told_apart(users: Users) -> None:
    trials = 60
    found = clicked(0.0, 100, trials, users)
    for better, worse in found[:2]:
        assert (better + worse) * trials <= 9
