"""The sign-flip test, and several tests of one family."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.core.errors import EvidenceError
from harness.stats import bootstrap, significance
from harness.stats.significance import (
    Alternative,
    adjusted,
    fdr_adjusted,
    sign_flip,
    sign_flip_each,
)

ALTERNATIVES: tuple[Alternative, ...] = ("greater", "less", "two-sided")


def brute_force(values: list[float], alternative: Alternative) -> float:
    observed = sum(values)
    sums = [sum(s * v for s, v in zip(signs, values, strict=True)) for signs in _signs(values)]
    if alternative == "greater":
        return float(np.mean([s >= observed - 1e-9 for s in sums]))
    if alternative == "less":
        return float(np.mean([s <= observed + 1e-9 for s in sums]))
    return float(np.mean([abs(s) >= abs(observed) - 1e-9 for s in sums]))


def _signs(values: list[float]) -> list[tuple[int, ...]]:
    return list(product([1, -1], repeat=len(values)))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9)
)
def test_few_pairs_are_enumerated_exactly(values: list[float]) -> None:
    for alternative in ALTERNATIVES:
        ours = sign_flip(
            np.array(values), shift=0, alternative=alternative, resamples=1, seed=0, clusters=None
        )
        assert ours == pytest.approx(brute_force(values, alternative), abs=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_agrees_with_scipy_exactly_and_by_draws(alternative: Alternative) -> None:
    for count, near in ((12, 1e-12), (60, 0.02)):
        values = np.random.default_rng(count).normal(0.12, 0.5, count)
        theirs = stats.permutation_test(
            (values,),
            np.mean,
            permutation_type="samples",
            n_resamples=9_999,
            alternative=alternative,
            rng=np.random.default_rng(3),
        ).pvalue
        ours = sign_flip(
            values, shift=0, alternative=alternative, resamples=9_999, seed=8, clusters=None
        )
        assert ours == pytest.approx(theirs, abs=near)


def test_zeros_change_nothing_and_do_not_use_up_the_exact_limit() -> None:
    values = np.random.default_rng(2).normal(0.3, 1, 15)
    padded = np.concatenate([values, np.zeros(500)])
    for alternative in ALTERNATIVES:
        exact = sign_flip(
            values, shift=0, alternative=alternative, resamples=5, seed=1, clusters=None
        )
        assert exact == sign_flip(
            padded, shift=0, alternative=alternative, resamples=5, seed=1, clusters=None
        )


def test_shift_tests_the_margin() -> None:
    values = np.random.default_rng(6).normal(0.0, 0.05, 80)
    worse_than_margin = sign_flip(
        values, shift=-0.05, alternative="greater", resamples=2_000, seed=1, clusters=None
    )
    better_than_margin = sign_flip(
        values, shift=0.05, alternative="greater", resamples=2_000, seed=1, clusters=None
    )
    assert worse_than_margin == pytest.approx(1 / 2_001)
    assert better_than_margin > 0.99


def test_differences_equal_to_the_shift_leave_nothing_to_test() -> None:
    values = np.full(30, 0.1) + 0.2
    found = sign_flip(
        values, shift=0.3, alternative="two-sided", resamples=10, seed=1, clusters=None
    )
    assert found == 1.0


def test_a_drawn_p_value_is_never_zero() -> None:
    found = sign_flip(
        np.ones(50), shift=0, alternative="greater", resamples=99, seed=1, clusters=None
    )
    assert found == pytest.approx(0.01)


def test_clusters_flip_together() -> None:
    values = np.array([0.3, 0.2, 0.4, 0.1, 0.5, 0.6])
    intents = np.array([0, 0, 1, 1, 2, 2])
    found = sign_flip(values, shift=0, alternative="greater", resamples=1, seed=1, clusters=intents)
    assert found == 1 / 8


def test_a_column_is_the_same_alone_and_beside_others() -> None:
    rng = np.random.default_rng(12)
    few = np.concatenate([np.full(8, 0.3), np.zeros(292)])
    columns = np.column_stack([rng.normal(0.1, 1, 300), few, rng.choice([0, 0, 0.5, -0.4], 300)])
    intents = np.arange(300) // 2
    for clusters in (None, intents):
        rules: Any = {"shift": 0.0, "resamples": 700, "seed": 3, "clusters": clusters}
        together = sign_flip_each(columns, alternative="greater", **rules)
        assert together == tuple(sign_flip(c, alternative="greater", **rules) for c in columns.T)
        assert together[1] == (1 / 256 if clusters is None else 1 / 16)


def test_no_block_changes_a_bit_of_the_p_value(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = np.random.default_rng(12).normal(0.02, 1, (700, 3))
    rules: Any = {"shift": 0.0, "alternative": "two-sided", "seed": 3, "clusters": None}
    whole = sign_flip_each(columns, resamples=900, **rules)
    for block in (97, 1_000, 90 * 333):
        monkeypatch.setattr(bootstrap, "PICKS_AT_ONCE", block)
        assert sign_flip_each(columns, resamples=900, **rules) == whole


def test_same_seed_same_p_value() -> None:
    values = np.random.default_rng(6).normal(0.05, 1, 80)
    found = {
        sign_flip(values, shift=0, alternative="less", resamples=300, seed=4, clusters=None)
        for _ in range(3)
    }
    assert len(found) == 1


@pytest.mark.parametrize("values", [[], [0.1, float("nan")]])
def test_nothing_and_nan_have_no_p_value(values: list[float]) -> None:
    with pytest.raises(EvidenceError, match="finite"):
        sign_flip(np.array(values), shift=0, alternative="less", resamples=9, seed=1, clusters=None)


def test_size_under_the_null_is_the_level() -> None:
    rng = np.random.default_rng(11)
    rejected = sum(
        sign_flip(
            rng.choice([-0.5, -0.1, 0.0, 0.1, 0.5], 40),
            shift=0,
            alternative="two-sided",
            resamples=399,
            seed=at,
            clusters=None,
        )
        <= 0.05
        for at in range(200)
    )
    assert 1 <= rejected <= 18


def test_worked_example_of_holm() -> None:
    found = adjusted(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_later_steps_never_fall_below_earlier_ones_or_rise_above_one() -> None:
    assert adjusted(np.array([0.3, 0.31, 0.9])).tolist() == pytest.approx([0.9, 0.9, 0.9])
    assert adjusted(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_lies_above_the_p_values_and_keeps_their_order(p_values: list[float]) -> None:
    raw = np.array(p_values, dtype=np.float64)
    found = adjusted(raw)
    assert (found >= raw).all()
    assert (np.diff(found[np.argsort(raw, kind="stable")]) >= 0).all()


@given(st.permutations([0.001, 0.02, 0.2, 0.7]))
def test_order_of_the_tests_does_not_matter(p_values: list[float]) -> None:
    found = dict(zip(p_values, adjusted(np.array(p_values)).tolist(), strict=True))
    assert [found[p] for p in (0.001, 0.02, 0.2, 0.7)] == pytest.approx([0.004, 0.06, 0.4, 0.7])


@pytest.mark.parametrize("broken", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(broken: float) -> None:
    with pytest.raises(EvidenceError, match="between 0 and 1"):
        adjusted(np.array([0.2, broken]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_agrees_with_scipy_and_is_never_stricter_than_holm(p_values: list[float]) -> None:
    raw = np.array(p_values, dtype=np.float64)
    assert fdr_adjusted(raw) == pytest.approx(stats.false_discovery_control(raw))
    assert (fdr_adjusted(raw) <= significance.adjusted(raw) + 1e-12).all()


def test_worked_example() -> None:
    found = fdr_adjusted(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found.tolist() == pytest.approx([0.02, 0.04, 0.04, 0.02])


@pytest.mark.parametrize("broken", [-0.1, 1.1, float("nan")])
def test_no_discovery_is_adjusted_by_what_is_no_probability(broken: float) -> None:
    with pytest.raises(EvidenceError, match="between 0 and 1"):
        fdr_adjusted(np.array([0.2, broken]))
