"""The cross-check of the sign-flip test."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.stats.randomization import Alternative, sign_flip
from harness.stats.saddlepoint import saddlepoint

ALTERNATIVES: tuple[Alternative, ...] = ("greater", "less", "two-sided")


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("mean", [-0.4, 0.0, 0.3, 0.8])
def test_is_near_every_choice_of_signs(mean: float, alternative: Alternative) -> None:
    values = np.random.default_rng(4).normal(mean, 1, 18)
    exact = sign_flip(values, shift=0, alternative=alternative, resamples=1, seed=1, clusters=None)
    found = saddlepoint(values, shift=0, alternative=alternative, clusters=None)
    assert found == pytest.approx(exact, rel=0.04)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_is_near_the_drawn_p_value(alternative: Alternative) -> None:
    values = np.random.default_rng(5).exponential(size=300) - 0.95
    intents = np.arange(300) // 2
    for clusters in (None, intents):
        drawn = sign_flip(
            values, shift=0, alternative=alternative, resamples=40_000, seed=1, clusters=clusters
        )
        found = saddlepoint(values, shift=0, alternative=alternative, clusters=clusters)
        assert found == pytest.approx(drawn, abs=0.01)


def test_reaches_where_no_draw_comes() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(1.2, 1, 20)
    exact = sign_flip(values, shift=0, alternative="greater", resamples=1, seed=1, clusters=None)
    assert exact < 5e-5
    found = saddlepoint(values, shift=0, alternative="greater", clusters=None)
    assert found == pytest.approx(exact, rel=0.15)


def test_a_sum_in_the_middle_is_a_half_and_one_at_the_end_is_exact() -> None:
    assert saddlepoint(np.array([1.0, -1.0]), shift=0, alternative="less", clusters=None) == 0.5
    ones = np.ones(30)
    assert saddlepoint(ones, shift=0, alternative="greater", clusters=None) == 0.5**30
    assert saddlepoint(ones, shift=0, alternative="less", clusters=None) == pytest.approx(1)
    assert saddlepoint(ones, shift=1, alternative="greater", clusters=None) == 1.0


@pytest.mark.parametrize("values", [[], [0.1, float("nan")]])
def test_nothing_and_nan_have_no_p_value(values: list[float]) -> None:
    with pytest.raises(EvidenceError, match="finite"):
        saddlepoint(np.array(values), shift=0, alternative="less", clusters=None)
