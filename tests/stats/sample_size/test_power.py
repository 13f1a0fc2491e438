"""How many queries settle a question, with the power that is promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.verdict_families import losing
from harness.core.errors import EvidenceError
from harness.stats.bounded import Span
from harness.stats.inference import Inference
from harness.stats.interval import interval
from harness.stats.sample_size import Pilot, queries_needed

DIFFERENCES = Span(-1.0, 1.0)
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def spread(mean: float, deviation: float, count: int) -> Floats:
    values = np.random.default_rng(0).normal(size=count)
    values = (values - values.mean()) / values.std(ddof=1)
    return np.asarray(mean + deviation * values, dtype=np.float64)


def needed(values: Floats, bound: float, power: float = 0.8, clusters: Codes | None = None) -> int:
    found = queries_needed(
        values, bound=bound, span=DIFFERENCES, confidence=0.95, power=power, clusters=clusters
    )
    assert found is not None
    return found


def test_a_large_pilot_comes_to_the_textbook_size() -> None:
    # (1.960 + 0.842)^2 * 0.1^2 / 0.02^2 = 196, and the bound's room for what was not seen
    wide, large = needed(spread(0.0, 0.1, 20_000), -0.02), spread(0.0, 0.1, 20_000)
    assert 196 < wide < 400
    tight = needed(large, -0.005)
    assert (2.8016 * 0.1 / 0.005) ** 2 < tight < 1.25 * (2.8016 * 0.1 / 0.005) ** 2


def test_a_small_pilot_asks_for_more_than_a_large_one() -> None:
    assert needed(spread(0.0, 0.1, 30), -0.02) > 1.3 * needed(spread(0.0, 0.1, 3_000), -0.02)


def settles(values: Floats) -> bool:
    inference = Inference(confidence=0.95, resamples=1_000, seed=1)
    found = interval(values, span=DIFFERENCES, inference=inference, clusters=None)
    return found.low > -0.12 or found.high < -0.12


@pytest.mark.slow
def test_the_promised_number_has_the_promised_power() -> None:
    """On average over pilots that settled nothing; from mean and spread alone it was two thirds."""
    rng = np.random.default_rng(4)
    settled: list[bool] = []
    as_seen: list[bool] = []
    for _ in range(90):
        pilot = losing(rng, (30,), 0.4)
        if not settles(pilot):
            plain = ((1.96 + 0.8416) * pilot.std(ddof=1) / abs(pilot.mean() + 0.12)) ** 2
            for into, count in ((settled, needed(pilot, -0.12)), (as_seen, math.ceil(plain))):
                into.append(settles(losing(rng, (max(2, min(count, 5_000)),), 0.4)))
    assert len(settled) > 60
    assert np.mean(settled) >= 0.8 - 2 * math.sqrt(0.8 * 0.2 / len(settled))
    assert np.mean(as_seen) < 0.75


@pytest.mark.parametrize("power", [0.5, 0.9])
def test_more_power_asks_for_more(power: float) -> None:
    values = spread(0.0, 0.1, 100)
    assert (needed(values, -0.02, power) > needed(values, -0.02)) is (power > 0.8)


def test_a_mean_at_the_bound_takes_very_many() -> None:
    assert needed(spread(-0.02, 0.1, 40), -0.02) > 40 * 40


@pytest.mark.parametrize(("value", "bound"), [(0.5, 0.5), (0.0, -1.0)])
def test_what_no_number_settles(value: float, bound: float) -> None:
    values = np.full(5, value)
    assert (
        queries_needed(
            values, bound=bound, span=DIFFERENCES, confidence=0.95, power=0.8, clusters=None
        )
        is None
    )


def test_without_spread_the_room_for_the_unseen_decides() -> None:
    assert needed(np.zeros(50), -0.02) == 188


def test_queries_of_one_cluster_count_as_one() -> None:
    seen = spread(0.0, 0.2, 50)
    copies, clusters = np.repeat(seen, 3), np.repeat(np.arange(50), 3)
    assert needed(copies, -0.05, clusters=clusters) == pytest.approx(
        3 * needed(seen, -0.05), rel=0.02
    )


def test_one_query_has_no_spread() -> None:
    with pytest.raises(EvidenceError, match="no spread"):
        Pilot.of(np.array([0.1]), span=DIFFERENCES, clusters=None)
