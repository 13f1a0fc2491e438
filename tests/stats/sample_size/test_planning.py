"""A planned number of queries has its power where the truth is as it was assumed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.simulate import kept
from harness.core.errors import EvidenceError
from harness.stats.bounded import Span
from harness.stats.interval import share
from harness.stats.sample_size import (
    Codes,
    Floats,
    Pilot,
    Target,
    assumed,
    planned,
    planned_share,
    upper_spread,
)

DIFFERENCES = Span(-1.0, 1.0)
ALIKE = Target(0.0, -0.02)


def plan(
    values: Floats,
    wanted: Target = ALIKE,
    power: float = 0.8,
    *,
    clusters: Codes | None = None,
    known: bool = False,
) -> int:
    found = planned(
        values,
        wanted,
        span=DIFFERENCES,
        confidence=0.95,
        power=power,
        clusters=clusters,
        known=known,
    )
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


def test_a_small_pilot_asks_for_more_by_the_limit_of_its_spread() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.2, 20).clip(-1, 1)
    pilot = Pilot.of(values, span=DIFFERENCES, clusters=None)
    assert upper_spread(pilot) > 1.1 * pilot.spread
    assert plan(values) > 1.2 * plan(values, known=True)


def test_the_limit_of_a_spread_covers_the_true_one_in_four_pilots_of_five() -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal(0, 0.1, (400, 25)).clip(-1, 1)
    limits = [upper_spread(Pilot.of(row, span=DIFFERENCES, clusters=None)) for row in draws]
    assert 0.74 < float(np.mean(np.array(limits) > 0.1)) < 0.86


def test_queries_in_clusters_are_planned_by_their_worth() -> None:
    once = np.random.default_rng(4).normal(0, 0.2, 200).clip(-1, 1)
    values, clusters = np.repeat(once, 3), np.repeat(np.arange(200), 3)
    assert plan(values, clusters=clusters, known=True) > 2.5 * plan(once, known=True)


def test_both_sides_ask_for_more_than_one() -> None:
    values = np.random.default_rng(5).normal(0, 0.2, 300).clip(-1, 1)
    assert plan(values, Target(0.0, 0.02, both_sides=True)) > plan(values, Target(0.0, -0.02))


def test_a_truth_on_the_bound_has_no_plan() -> None:
    values = np.random.default_rng(6).normal(0, 0.2, 50).clip(-1, 1)
    for wanted in (Target(-0.02, -0.02), Target(0.02, 0.02, both_sides=True)):
        assert (
            planned(values, wanted, span=DIFFERENCES, confidence=0.95, power=0.8, clusters=None)
            is None
        )


def test_an_assumed_spread_is_that_of_the_sample_made_for_it() -> None:
    values = assumed(0.25, truth=0.0, span=DIFFERENCES)
    assert (values.mean(), values.std()) == pytest.approx((0.0, 0.25), abs=1e-3)
    assert plan(values, known=True) > plan(assumed(0.1, truth=0.0, span=DIFFERENCES), known=True)
    assert assumed(0.01, truth=0.1, span=DIFFERENCES).std() == pytest.approx(0.01, abs=1e-3)
    for spread in (1.2, 0.001):
        with pytest.raises(EvidenceError, match=f"cannot have a standard deviation of {spread}"):
            assumed(spread, truth=0.0, span=DIFFERENCES)


def test_a_share_is_planned_by_its_exact_interval() -> None:
    assert planned_share(0.0, ceiling=0.01, confidence=0.95, power=0.8) == 368
    count = planned_share(0.002, ceiling=0.01, confidence=0.95, power=0.8)
    assert count is not None
    bad = np.random.default_rng(7).binomial(count, 0.002, 2_000)
    passes = {k: share(int(k), count, confidence=0.95).high < 0.01 for k in np.unique(bad)}
    assert float(np.mean([passes[k] for k in bad])) == pytest.approx(0.82, abs=0.05)
    assert planned_share(0.01, ceiling=0.01, confidence=0.95, power=0.8) is None


@pytest.mark.parametrize("largest", [0.0, 0.001])
def test_a_pilot_without_a_difference_takes_the_fewest(largest: float) -> None:
    """Clusters of a given share grow with the queries, and must not drive the plan away."""
    values, span = np.zeros(50), Span(-1.0, 1.0)
    found = planned(
        values, Target(0.0, -0.02), span=span, confidence=0.95, power=0.8, clusters=None,
        largest=largest,
    )  # fmt: skip
    assert found == 188
