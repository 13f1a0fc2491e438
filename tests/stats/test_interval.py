"""The interval of a mean: the bound within a span, and the bootstrap without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.bootstrap import bca
from harness.stats.bounded import Span, bounded_each
from harness.stats.inference import Inference
from harness.stats.interval import interval, interval_each

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
