"""The BCa interval of a mean."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmarks.simulate import steps
from harness.core.errors import EvidenceError, HarnessError
from harness.stats import bootstrap
from harness.stats.bootstrap import bca, bca_each

pytestmark = pytest.mark.slow


def as_theirs(units: int) -> float:
    """Give the confidence at which our reach for few queries is scipy's at 95 %."""
    reach = stats.norm.ppf(0.975) * np.sqrt((units - 1) / units)
    return float(2 * stats.t.cdf(reach, units - 1) - 1)


def by_scipy(values: NDArray[np.float64]) -> tuple[float, float]:
    found = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(9)
    ).confidence_interval
    return float(found.low), float(found.high)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).uniform(size=40) ** 2,
        -np.random.default_rng(2).beta(1, 2, size=60),
        np.array([0.0] * 25 + [1 / 3] * 6 + [0.5] * 5 + [1.0] * 14),
    ],
)
def test_is_scipys_on_skewed_and_tied_values_with_light_tails(values: NDArray[np.float64]) -> None:
    assert float(stats.kurtosis(values, fisher=False)) < 3
    assert abs(float(stats.skew(values))) > 0.4
    low, high = by_scipy(values)
    estimate = bca(
        values, confidence=as_theirs(len(values)), resamples=20_000, seed=5, clusters=None
    )
    assert estimate.value == pytest.approx(values.mean(), abs=1e-15)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=0.004)


def test_the_reach_is_students_and_of_the_unbiased_spread() -> None:
    values = np.random.default_rng(8).uniform(-1, 1, 12)
    values = np.concatenate([values, -values])
    estimate = bca(values, confidence=0.9, resamples=40_000, seed=5, clusters=None)
    reach = stats.t.ppf(0.95, 23) * values.std(ddof=1) / np.sqrt(24)
    assert (estimate.low, estimate.high) == pytest.approx((-reach, reach), rel=0.03)


def test_a_spread_that_rests_on_few_queries_is_trusted_less() -> None:
    few = np.array([0.0] * 44 + [1.0, -1.0, 0.5, -0.5, 0.2, -0.2])
    low, high = by_scipy(few)
    estimate = bca(few, confidence=as_theirs(50), resamples=20_000, seed=5, clusters=None)
    freedom = 2 * 50 / (stats.kurtosis(few, fisher=False) - 1)
    assert freedom < 8
    wider = stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975)
    assert 1.1 < (estimate.high - estimate.low) / (high - low) < wider + 0.05


def test_a_skewness_that_rests_on_few_queries_hardly_counts() -> None:
    few = np.array([0.0] * 45 + [1.0, 0.4, 0.3, -0.1, 0.2])
    estimate = bca(few, confidence=0.95, resamples=20_000, seed=5, clusters=None)
    means = bootstrap.drawn_sums(few.reshape(-1, 1), resamples=20_000, seed=5)[:, 0] / 50
    freedom = 2 * 50 / (stats.kurtosis(few, fisher=False) - 1)
    reach = np.sqrt(50 / 49) * stats.t.ppf(0.975, freedom)
    ends = [float(np.quantile(means, stats.norm.cdf(side))) for side in (-reach, reach)]
    assert (estimate.low, estimate.high) == pytest.approx((ends[0], ends[1]), abs=0.001)


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    moved = steps(rng, (50, 500), 0.016, moved=0.2)
    assert moved is not None
    for mean, values in ((0.016, moved), (0.0, 0.1 - 0.1 * rng.exponential(size=(50, 500)))):
        found = bca_each(values, confidence=0.95, resamples=2_000, seed=1, clusters=None)
        above = np.mean([one.low > mean + 1e-9 for one in found])
        below = np.mean([one.high < mean - 1e-9 for one in found])
        assert 0.93 - 0.02 <= 1 - above - below <= 0.97 + 0.02
        assert max(above, below) < 0.07


def test_same_seed_same_interval_and_other_seed_another() -> None:
    values = np.random.default_rng(0).normal(size=50)
    one = bca(values, confidence=0.95, resamples=1_000, seed=1, clusters=None)
    assert one == bca(values, confidence=0.95, resamples=1_000, seed=1, clusters=None)
    assert one != bca(values, confidence=0.95, resamples=1_000, seed=2, clusters=None)


def test_more_confidence_is_wider() -> None:
    values = np.random.default_rng(0).normal(size=50)
    narrow = bca(values, confidence=0.8, resamples=4_000, seed=1, clusters=None)
    wide = bca(values, confidence=0.99, resamples=4_000, seed=1, clusters=None)
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("confidence", [0.995, 0.999, 0.999_999])
def test_an_end_beyond_infinity_is_an_extreme_and_not_the_other_end(confidence: float) -> None:
    """Of three queries, one of which lost all, it said that none is lost: from 0 to 0."""
    for values in ([-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-1.0, *[0.0] * 3], [-1.0, *[0.05] * 4]):
        found = bca(np.array(values), confidence=confidence, resamples=2_000, seed=1, clusters=None)
        assert found.low < found.value < found.high, values


def test_copies_of_a_query_in_one_cluster_add_no_certainty() -> None:
    values = np.random.default_rng(4).normal(size=60)
    alone = bca(values, confidence=0.95, resamples=10_000, seed=1, clusters=None)
    copies, intents = np.repeat(values, 4), np.repeat(np.arange(60), 4)
    together = bca(copies, confidence=0.95, resamples=10_000, seed=1, clusters=intents)
    blind = bca(copies, confidence=0.95, resamples=10_000, seed=1, clusters=None)
    assert (together.low, together.high) == pytest.approx((alone.low, alone.high), abs=0.01)
    assert blind.high - blind.low < 0.6 * (alone.high - alone.low)
    assert together.n == 240


def test_mean_over_uneven_clusters_is_the_mean_over_queries() -> None:
    values = np.array([1.0, 1.0, 1.0, 0.0, 0.5, 0.2])
    estimate = bca(
        values, confidence=0.9, resamples=2_000, seed=1, clusters=np.array([7, 7, 7, 1, 2, 2])
    )
    assert estimate.value == pytest.approx(values.mean())
    assert 0.0 <= estimate.low < estimate.value < estimate.high <= 1.0


def test_no_spread_is_an_interval_without_width() -> None:
    estimate = bca(np.full(9, 0.1), confidence=0.95, resamples=100, seed=1, clusters=None)
    assert (estimate.value, estimate.low, estimate.high) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_few_queries_still_give_a_finite_interval(count: int) -> None:
    values = np.linspace(0, 1, count)
    estimate = bca(values, confidence=0.95, resamples=2_000, seed=1, clusters=None)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


@pytest.mark.parametrize("values", [[], [0.3]])
def test_nothing_to_learn_from_is_refused(values: list[float]) -> None:
    with pytest.raises(HarnessError, match=f"{len(values)} independent quer(y|ies) "):
        bca(np.array(values), confidence=0.95, resamples=100, seed=1, clusters=None)


def test_one_cluster_is_one_query() -> None:
    with pytest.raises(EvidenceError, match="1 independent"):
        bca(np.arange(9.0), confidence=0.95, resamples=100, seed=1, clusters=np.zeros(9, np.int64))


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_refused(broken: float) -> None:
    with pytest.raises(EvidenceError, match="NaN"):
        bca(np.array([0.1, broken, 0.2]), confidence=0.95, resamples=100, seed=1, clusters=None)


def test_weights_and_counts_give_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart by less than the draws of another seed move them."""
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.exponential(size=1_200), rng.choice([0, 0, 0, 0.5, -0.2], 1_200)])
    sizes = np.repeat(np.arange(1_100), rng.permutation([2] * 100 + [1] * 1_000))
    for clusters in (None, sizes):
        rules: Any = {"confidence": 0.95, "resamples": 20_000, "seed": 1, "clusters": clusters}
        weighed = bca_each(values, **rules)
        with monkeypatch.context() as patched:
            patched.setattr(bootstrap, "WEIGHTED_FROM", 10**9)
            counted = bca_each(values, **rules)
        for one, other in zip(weighed, counted, strict=True):
            near = 0.02 * (other.high - other.low)
            assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=near)
            assert one != other


def few_columns(count: int = 90) -> NDArray[np.float64]:
    rng = np.random.default_rng(12)
    return np.column_stack([
        rng.normal(size=count),
        rng.exponential(size=count),
        rng.choice([0, 0, 0.5], count),
    ])


@pytest.mark.parametrize(
    "clusters", [None, np.arange(90) // 4, np.arange(90) // 3, np.arange(4_010) // 4]
)
def test_a_column_is_the_same_alone_and_beside_others(clusters: NDArray[np.int64] | None) -> None:
    columns = few_columns(90 if clusters is None else len(clusters))
    rules: Any = {"confidence": 0.95, "resamples": 800, "seed": 3, "clusters": clusters}
    together = bca_each(columns, **rules)
    assert together == tuple(bca(column, **rules) for column in columns.T)
    assert len({each.low for each in together}) == 3


@pytest.mark.parametrize("count", [90, 1_100])
def test_neither_blocks_nor_threads_change_a_bit(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = few_columns(count)
    rules: Any = {"confidence": 0.95, "resamples": 900, "seed": 3, "clusters": None}
    whole = bca_each(columns, **rules)
    for block, threads in ((97, 1), (1_000, 2), (90 * 333, 2)):
        monkeypatch.setattr(bootstrap, "PICKS_AT_ONCE", block)
        assert bca_each(columns, **rules, threads=threads) == whole


def test_memory_is_bounded_by_the_block() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    tracemalloc.start()
    bca(values, confidence=0.95, resamples=200, seed=1, clusters=None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000
