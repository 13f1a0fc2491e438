"""Means over the traffic: right by hand, covered in simulation, and refused where they mislead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.simulate import traffic_means
from harness.core.errors import EvidenceError
from harness.core.records import Drawn
from harness.stats.bounded import Span, bounded_each
from harness.stats.inference import Inference
from harness.stats.interval import TrafficMean, traffic_mean_each

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
