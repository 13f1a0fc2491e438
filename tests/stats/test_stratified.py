"""Means over the traffic: right by hand, covered in simulation, and refused where they mislead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.simulated_traffic_means import traffic_means
from harness.core.errors import EvidenceError
from harness.core.records import Drawn
from harness.stats.inference import Inference
from harness.stats.stratified import traffic_mean_each

RULES = Inference(confidence=0.95, resamples=500, seed=5)
Draws = Callable[[int, int], int]


def test_a_query_counts_by_its_requests_over_its_inclusion_probability() -> None:
    drawn = [Drawn("head", 1.0, 70), Drawn("tail", 0.1, 1), Drawn("tail", 0.1, 2)]
    values = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, np.nan]])
    found, none = traffic_mean_each(values, drawn, inference=RULES)
    assert none is None
    assert found is not None
    assert found.value == pytest.approx((70 + 0 * 10 + 20) / 100)
    assert found.low < found.value < found.high
    assert found.n == 3


def test_a_query_without_a_value_is_not_counted() -> None:
    drawn = [Drawn("s", 0.5, 1)] * 3 + [Drawn("t", 0.5, 1000)]
    (found,) = traffic_mean_each(np.array([[0.2], [0.4], [0.6], [np.nan]]), drawn, inference=RULES)
    assert found is not None
    assert found.value == pytest.approx(0.4)
    assert found.n == 3


def test_a_log_that_was_taken_whole_leaves_nothing_open() -> None:
    drawn = [Drawn("s", 1.0, at + 1) for at in range(10)]
    (found,) = traffic_mean_each(np.linspace(0, 1, 10).reshape(-1, 1), drawn, inference=RULES)
    assert found is not None
    assert found.low == found.value == found.high


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(1)
    drawn = [Drawn(f"s{at % 3}", 0.2, at % 7 + 1) for at in range(60)]
    values = rng.random((60, 2))
    both, again = (traffic_mean_each(values, drawn, inference=RULES) for _ in range(2))
    assert both == again
    assert traffic_mean_each(values[:, 1:], drawn, inference=RULES) == both[1:]


def test_two_probabilities_in_one_stratum_are_refused() -> None:
    drawn = [Drawn("s", 0.5, 1), Drawn("s", 0.4, 1)]
    with pytest.raises(EvidenceError, match="stratum s have different inclusion probabilities"):
        traffic_mean_each(np.ones((2, 1)), drawn, inference=RULES)


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("size", [60, 150])
def test_intervals_contain_the_mean_of_the_whole_log(size: int, draws: Draws) -> None:
    trials = draws(150, 2_000)
    covered = traffic_means(size, trials)
    assert 0.95 - 3.1 * (0.05 * 0.95 / trials) ** 0.5 <= covered.traffic
    assert covered.traffic < 1
    assert abs(covered.plain_bias) > 0.02, "the fault that weights are against is not there"
