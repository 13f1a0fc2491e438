"""Intervals of a mean, of a share, and of a stratified mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.simulate import traffic_means
from harness.core.errors import EvidenceError
from harness.core.records import Drawn
from harness.core.scores import Estimate
from harness.stats.bootstrap import bca
from harness.stats.bounded import Span, bounded_each
from harness.stats.inference import Inference
from harness.stats.interval import (
    TrafficMean,
    interval,
    interval_each,
    share,
    size_for,
    traffic_mean_each,
)

DIFFERENCES = Span(-1.0, 1.0)
DRAWN: dict[str, Any] = {"confidence": 0.95, "resamples": 2_000, "seed": 7}
SURE: dict[str, Any] = {"inference": Inference(**DRAWN), "clusters": None}


def test_within_a_span_it_is_the_bound_alone() -> None:
    rng = np.random.default_rng(1)
    columns = np.column_stack([
        np.zeros(60),
        np.where(rng.random(60) < 0.05, -1.0, 0.0),
        rng.uniform(-0.9, 0.9, 60),
        np.r_[-1.0, np.zeros(59)],
    ])
    estimates = interval_each(columns, span=DIFFERENCES, **SURE)
    ends = bounded_each(columns, span=DIFFERENCES, level=(1 - 0.95) / 2, clusters=None)
    for at, one in enumerate(estimates):
        assert one.value == pytest.approx(columns[:, at].mean())
        assert one == Estimate(one.value, ends.low[at], ends.high[at], 60)
        assert one == interval(columns[:, at], span=DIFFERENCES, **SURE)
    assert estimates[0].low == pytest.approx(-0.061, abs=0.001)


def test_no_verdict_depends_on_a_seed_or_on_the_resamples() -> None:
    values = np.random.default_rng(2).uniform(-0.9, 0.9, 40)
    other = Inference(confidence=0.95, resamples=1_000, seed=8)
    found = interval(values, span=DIFFERENCES, inference=other, clusters=None)
    assert found == interval(values, span=DIFFERENCES, **SURE)


def test_one_cluster_has_the_widest_interval_instead_of_none() -> None:
    values = np.full(12, 0.1)
    found = interval(values, span=DIFFERENCES, **SURE | {"clusters": np.zeros(12, dtype=np.int64)})
    assert found.value == pytest.approx(0.1)
    assert found.low < -0.9
    assert found.high > 0.9


def test_without_a_span_it_is_the_bootstrap() -> None:
    values = np.array([3.0, 8.0, 12.0, 100.0])
    assert interval(values, span=None, **SURE) == bca(values, **DRAWN, clusters=None)


def test_clusters_count_once() -> None:
    values = np.zeros(60)
    codes = np.repeat(np.arange(20), 3)
    alone = interval(values, span=DIFFERENCES, **SURE)
    together = interval(values, span=DIFFERENCES, **SURE | {"clusters": codes})
    assert isinstance(together, Estimate)
    assert together.low == pytest.approx(-(1 - 0.025 ** (1 / 20)), rel=0.03)
    assert alone.low > together.low


def test_a_value_that_cannot_be_is_refused() -> None:
    with pytest.raises(EvidenceError, match="not all within"):
        interval(np.array([0.5, 7.0]), span=DIFFERENCES, **SURE)


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


RULES = Inference(confidence=0.95, resamples=1, seed=5)
Draws = Callable[[int, int], int]


SHARE, DIFFERENCE = Span(0.0, 1.0), Span(-1.0, 1.0)


def of(values: list[float], drawn: list[Drawn], span: Span | None = SHARE) -> TrafficMean | None:
    (found,) = traffic_mean_each(
        np.array(values).reshape(-1, 1), drawn, spans=[span], inference=RULES
    )
    return found


def test_a_query_counts_by_its_requests_over_its_inclusion_probability() -> None:
    drawn = [Drawn("head", 1.0, 70), Drawn("tail", 0.1, 1), Drawn("tail", 0.1, 2)]
    found = of([1.0, 0.0, 1.0], drawn)
    assert found is not None
    mean = found.estimate
    assert mean.value == pytest.approx((70 + 0 * 10 + 20) / 100)
    assert mean.low < mean.value < mean.high
    assert (mean.n, found.share) == (3, 1.0)
    assert of([np.nan, 1.0, np.nan], drawn) is None
    assert of([1.0, 0.0, 1.0], drawn, None) is None


def test_a_query_without_a_value_is_not_counted_and_its_requests_are_told() -> None:
    drawn = [Drawn("s", 0.5, 1)] * 3 + [Drawn("t", 0.5, 9)]
    found = of([0.2, 0.4, 0.6, np.nan], drawn)
    assert found is not None
    assert found.estimate.value == pytest.approx(0.4)
    assert found.estimate.n == 3
    assert found.share == pytest.approx(3 / 12)


def test_a_log_that_was_taken_whole_leaves_nothing_open() -> None:
    found = of(np.linspace(0, 1, 10).tolist(), [Drawn("s", 1.0, at + 1) for at in range(10)])
    assert found is not None
    assert found.estimate.low == found.estimate.value == found.estimate.high


def test_a_sample_without_a_difference_says_nothing_of_what_was_not_sampled() -> None:
    head = [Drawn("head", 1.0, 50)]
    for inclusion in (0.01, 0.5, 0.9):
        found = of([0.0] * 101, head + [Drawn("tail", inclusion, 1)] * 100, DIFFERENCE)
        assert found is not None
        low, high = found.estimate.low, found.estimate.high
        tail = 100 / inclusion / (100 / inclusion + 50)
        assert -low == pytest.approx(high)
        assert low == pytest.approx(-0.0362 * tail * (1 - inclusion) ** 0.5, rel=0.03)


def test_equal_weights_have_the_bound_of_a_plain_mean() -> None:
    values = np.random.default_rng(1).random(40)
    found = of(values.tolist(), [Drawn("s", 1e-9, 3)] * 40)
    ends = bounded_each(values.reshape(-1, 1), span=SHARE, level=0.025, clusters=None)
    assert found is not None
    assert found.estimate.low == pytest.approx(float(ends.low[0]))
    assert found.estimate.high == pytest.approx(float(ends.high[0]))


def test_each_column_is_by_itself() -> None:
    rng = np.random.default_rng(1)
    drawn = [Drawn(f"s{at % 3}", 0.2, at % 7 + 1) for at in range(60)]
    values = rng.random((60, 2))
    both = traffic_mean_each(values, drawn, spans=[SHARE, DIFFERENCE], inference=RULES)
    assert (of(values[:, 0].tolist(), drawn), of(values[:, 1].tolist(), drawn, DIFFERENCE)) == both


def test_what_misleads_is_refused() -> None:
    drawn = [Drawn("s", 0.5, 1), Drawn("s", 0.4, 1)]
    with pytest.raises(EvidenceError, match="stratum s have different inclusion probabilities"):
        of([1.0, 1.0], drawn)
    with pytest.raises(EvidenceError, match="not all within 0 and 1"):
        of([1.0, 2.0], [Drawn("s", 0.5, 1)] * 2)


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("moved", [None, 0.1, 0.03])
@pytest.mark.parametrize("size", [60, 150])
def test_intervals_contain_the_mean_of_the_whole_log(
    size: int, moved: float | None, draws: Draws
) -> None:
    trials = draws(150, 2_000)
    covered = traffic_means(size, trials, moved=moved)
    assert 0.95 - 3.1 * (0.05 * 0.95 / trials) ** 0.5 <= covered.traffic
    assert covered.width < 0.5
    if moved is None:
        assert abs(covered.plain_bias) > 0.02, "the fault that weights are against is not there"
