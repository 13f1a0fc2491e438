"""Significance and sample sizes."""

import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.simulate import kept
from harness.core.errors import EvidenceError
from harness.stats import sample_size
from harness.stats.bounded import ValueRange, bounded_each
from harness.stats.interval import share
from harness.stats.sample_size import Codes, Floats, IntervalTarget, Pilot, assumed, min_queries
from harness.stats.significance import adjusted, fdr_adjusted, sign_flip
from tests.source import ROOT

DIFFERENCES, SHARES = ValueRange(-1.0, 1.0), ValueRange(0.0, 1.0)
ASKED: dict[str, Any] = {"span": DIFFERENCES, "confidence": 0.95, "power": 0.8, "clusters": None}
ALIKE = IntervalTarget(0.0, -0.02)


def spread(mean: float, deviation: float, count: int) -> Floats:
    values = np.random.default_rng(0).normal(size=count)
    values = (values - values.mean()) / values.std(ddof=1)
    return np.asarray(mean + deviation * values, dtype=np.float64)


def needed(values: Floats, bound: float, clusters: Codes | None = None) -> int:
    found = sample_size.queries_needed(values, bound=bound, **ASKED | {"clusters": clusters})
    assert found is not None
    return found


def test_a_large_pilot_comes_to_the_textbook_size() -> None:
    # (1.960 + 0.842)^2 * 0.1^2 / 0.02^2 = 196, and the bound's room for what was not seen
    wide, large = needed(spread(0.0, 0.1, 20_000), -0.02), spread(0.0, 0.1, 20_000)
    assert 196 < wide < 400
    tight = needed(large, -0.005)
    assert (2.8016 * 0.1 / 0.005) ** 2 < tight < 1.25 * (2.8016 * 0.1 / 0.005) ** 2


@pytest.mark.parametrize(("value", "bound"), [(0.5, 0.5), (0.0, -1.0)])
def test_what_no_number_settles(value: float, bound: float) -> None:
    assert sample_size.queries_needed(np.full(5, value), bound=bound, **ASKED) is None


def test_without_spread_the_room_for_the_unseen_decides() -> None:
    assert needed(np.zeros(50), -0.02) == 188


def test_queries_of_one_cluster_count_as_one() -> None:
    seen = spread(0.0, 0.2, 50)
    tripled = needed(np.repeat(seen, 3), -0.05, np.repeat(np.arange(50), 3))
    assert tripled == pytest.approx(3 * needed(seen, -0.05), rel=0.02)


def plan(values: Floats, wanted: IntervalTarget = ALIKE, **changed: Any) -> int:  # noqa: ANN401
    found = sample_size.planned(values, wanted, **ASKED | changed)
    assert found is not None
    return found


@pytest.mark.parametrize(("mean", "moved"), [(0.0, 0.4), (0.016, 0.2)])
def test_a_plan_from_a_large_pilot_keeps_its_power(mean: float, moved: float) -> None:
    found = kept(mean, moved, pilot=2_000, bound=mean - 0.05, pilots=2, samples=200)
    assert 0.8 - 2 * math.sqrt(0.16 / 400) < found.passed < 0.93


def test_plans_from_small_pilots_keep_it_on_average() -> None:
    found = kept(0.0, 0.4, pilot=30, bound=-0.05, pilots=12, samples=40)
    assert found.passed > 0.8 - 0.12
    assert found.enough >= 0.5


def test_fewer_queries_than_planned_have_less_power() -> None:
    values = np.random.default_rng(1).normal(0, 0.2, 500).clip(-1, 1)
    sizes = [plan(values, power=power) for power in (0.5, 0.8, 0.95)]
    assert sizes == sorted(set(sizes))
    # (1.960 + 0.842)^2 * spread^2 / 0.02^2, and the bound's room for what was not seen
    textbook = (2.8016 * float(values.std(ddof=1)) / 0.02) ** 2
    assert textbook < plan(values, known=True) < 1.6 * textbook


def test_the_limit_of_a_spread_covers_the_true_one_in_four_pilots_of_five() -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal(0, 0.1, (400, 25)).clip(-1, 1)
    limits = [
        sample_size.upper_spread(Pilot.of(row, span=DIFFERENCES, clusters=None)) for row in draws
    ]
    assert 0.74 < float(np.mean(np.array(limits) > 0.1)) < 0.86


def test_queries_in_clusters_are_planned_by_their_worth() -> None:
    once = np.random.default_rng(4).normal(0, 0.2, 200).clip(-1, 1)
    values, clusters = np.repeat(once, 3), np.repeat(np.arange(200), 3)
    assert plan(values, clusters=clusters, known=True) > 2.5 * plan(once, known=True)


def test_both_sides_ask_for_more_than_one() -> None:
    values = np.random.default_rng(5).normal(0, 0.2, 300).clip(-1, 1)
    assert plan(values, IntervalTarget(0.0, 0.02, both_sides=True)) > plan(values)
    up, down = (IntervalTarget(at, 0.05, both_sides=True) for at in (0.02, -0.02))
    assert plan(values, up) == pytest.approx(plan(-values, down), rel=0.01)
    assert plan(values, up) > plan(values, IntervalTarget(0.0, -0.05))


def test_a_truth_on_the_bound_has_no_plan() -> None:
    values = np.random.default_rng(6).normal(0, 0.2, 50).clip(-1, 1)
    for wanted in (IntervalTarget(-0.02, -0.02), IntervalTarget(0.02, 0.02, both_sides=True)):
        assert sample_size.planned(values, wanted, **ASKED) is None, wanted


def test_an_assumed_spread_is_that_of_the_sample_made_for_it() -> None:
    values = assumed(0.25, truth=0.0, span=DIFFERENCES)
    assert (values.mean(), values.std()) == pytest.approx((0.0, 0.25), abs=1e-3)
    assert plan(values, known=True) > plan(assumed(0.1, truth=0.0, span=DIFFERENCES), known=True)
    for spread, truth in ((0.01, 0.1), (0.7, 0.0), (0.9, 0.0), (1.0, 0.0)):
        made = assumed(spread, truth=truth, span=DIFFERENCES)
        assert (made.mean(), made.std()) == pytest.approx((truth, spread), abs=1e-3)
    for spread in (1.2, 0.001):
        with pytest.raises(EvidenceError, match=f"cannot have a standard deviation of {spread}"):
            assumed(spread, truth=0.0, span=DIFFERENCES)


def test_a_share_is_planned_by_its_exact_interval() -> None:
    assert sample_size.planned_share(0.0, ceiling=0.01, confidence=0.95, power=0.8) == 368
    count = sample_size.planned_share(0.002, ceiling=0.01, confidence=0.95, power=0.8)
    assert count is not None
    bad = np.random.default_rng(7).binomial(count, 0.002, 2_000)
    passes = {k: share(int(k), count, confidence=0.95).high < 0.01 for k in np.unique(bad)}
    assert float(np.mean([passes[k] for k in bad])) == pytest.approx(0.82, abs=0.05)
    assert sample_size.planned_share(0.01, ceiling=0.01, confidence=0.95, power=0.8) is None


@pytest.mark.parametrize("largest", [0.0, 0.001])
def test_a_pilot_without_a_difference_takes_the_fewest(largest: float) -> None:
    """Clusters of a given share grow with the queries, and must not drive the plan away."""
    assert plan(np.zeros(50), largest=largest) == 188


FEWEST = {0.01: 377, 0.02: 188, 0.03: 125, 0.05: 74, 0.1: 36, 0.2: 17}
"""Queries without a difference that a margin takes."""


@pytest.mark.parametrize(
    ("best", "bound", "queries"),
    [
        *((0.0, -margin, queries) for margin, queries in FEWEST.items()),
        (1.0, 0.8, 17),
    ],
)
def test_the_fewest_that_can_pass_follow_from_the_margin(
    best: float, bound: float, queries: int
) -> None:
    span = SHARES if best else DIFFERENCES
    assert min_queries(best, bound, span=span, level=0.025) == queries
    for count, clears in ((queries, True), (queries - 1, False)):
        values = np.full((count, 1), best)
        low = bounded_each(values, span=span, level=0.025, clusters=None).low[0]
        assert (low > bound) is np.bool_(clears)


def test_large_clusters_take_more_queries_or_hide_the_bound() -> None:
    one, level = np.zeros((1, 1)), 0.025
    assert min_queries(0.0, -0.02, span=DIFFERENCES, level=level, largest=0.001) < 190
    for large in (0.005, 0.01):
        ends = bounded_each(
            one, span=DIFFERENCES, level=level, clusters=None, largest=large, times=10_000
        )
        assert float(ends.low[0]) == pytest.approx(-sample_size.unseen_loss(large, level), rel=0.05)
    with pytest.raises(EvidenceError, match=r"clusters of 1\.00% .* lower largest_cluster"):
        min_queries(0.0, -0.02, span=DIFFERENCES, level=level, largest=0.01)


def test_what_the_page_says_of_it_is_so() -> None:
    page = (ROOT / "docs" / "statistics.md").read_text("utf-8")
    margins, counts = (
        re.findall(r"[\d.]+", row)
        for row in re.findall(r"^\| (?:margin|queries) \|(?: [\d.]+ \|)+$", page, re.MULTILINE)
    )
    assert len(margins) > 5
    for margin, count in zip(margins, counts, strict=True):
        assert int(count) == min_queries(0.0, -float(margin), span=DIFFERENCES, level=0.025)


def test_copies_count_once() -> None:
    values, groups = np.random.default_rng(1).normal(size=2_000), np.repeat(np.arange(2_000), 4)
    assert sample_size.dependence(np.zeros(6), np.array([0, 0, 0, 1, 1, 2])).design_effect == 14 / 6
    found = sample_size.dependence(np.repeat(values, 4), groups)
    assert (found.queries, found.clusters, found.largest) == (8_000, 2_000, 4)
    assert found.design_effect == pytest.approx(4, rel=1e-3)
    assert found.effective == pytest.approx(2_000, rel=1e-3)


def brute_force(values: list[float]) -> float:
    every = product([1, -1], repeat=len(values))
    sums = [sum(s * v for s, v in zip(signs, values, strict=True)) for signs in every]
    return float(np.mean([abs(s) >= abs(sum(values)) - 1e-9 for s in sums]))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9)
)
def test_few_pairs_are_enumerated_exactly(values: list[float]) -> None:
    ours = sign_flip(np.array(values), resamples=1, seed=0, clusters=None)
    assert ours == pytest.approx(brute_force(values), abs=1e-12)


def test_agrees_with_scipy_exactly_and_by_draws() -> None:
    for count, near in ((12, 1e-12), (60, 0.02)):
        values = np.random.default_rng(count).normal(0.12, 0.5, count)
        theirs = stats.permutation_test(
            (values,), np.mean, permutation_type="samples", rng=np.random.default_rng(3)
        ).pvalue
        ours = sign_flip(values, resamples=9_999, seed=8, clusters=None)
        assert ours == pytest.approx(theirs, abs=near)


def test_differences_of_0_leave_nothing_to_test() -> None:
    assert sign_flip(np.zeros(30), resamples=10, seed=1, clusters=None) == 1.0
    two = np.append(np.zeros(30), [1.0, 1.0])
    assert sign_flip(two, resamples=10, seed=1, clusters=None) == 0.5


def test_a_drawn_p_value_is_never_zero() -> None:
    found = sign_flip(np.ones(50), resamples=99, seed=1, clusters=None)
    assert found == pytest.approx(0.01)


def test_clusters_flip_together() -> None:
    values = np.array([0.3, 0.2, 0.4, 0.1, 0.5, 0.6])
    intents = np.array([0, 0, 1, 1, 2, 2])
    assert sign_flip(values, resamples=1, seed=1, clusters=intents) == 2 / 8


@pytest.mark.parametrize("values", [[], [0.1, float("nan")]])
def test_nothing_and_nan_have_no_p_value(values: list[float]) -> None:
    with pytest.raises(EvidenceError, match="finite"):
        sign_flip(np.array(values), resamples=9, seed=1, clusters=None)


def test_worked_example_of_holm() -> None:
    """Later steps never fall below earlier ones, nor rise above one."""
    found = adjusted(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted(np.array([0.3, 0.31, 0.9])).tolist() == pytest.approx([0.9, 0.9, 0.9])
    assert adjusted(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_agrees_with_scipy_and_is_never_stricter_than_holm(p_values: list[float]) -> None:
    raw = np.array(p_values, dtype=np.float64)
    assert fdr_adjusted(raw) == pytest.approx(stats.false_discovery_control(raw))
    assert (fdr_adjusted(raw) <= adjusted(raw) + 1e-12).all()


@pytest.mark.parametrize(
    ("values", "df"), [([1.0, -1.0, 1.0, -1.0], 3.0), ([0.0] * 9 + [1.0], 2.8125), ([0, 0, 1], 2.0)]
)
def test_the_freedom_of_a_spread_is_satterthwaites(values: list[float], df: float) -> None:
    pilot = Pilot.of(np.array(values, dtype=np.float64), span=ValueRange(-1, 1), clusters=None)
    assert pilot.df == pytest.approx(df)
