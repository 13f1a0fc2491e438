"""What clusters do to the spread of a mean."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.stats.sample_size import dependence


def test_copies_count_once() -> None:
    values, groups = np.random.default_rng(1).normal(size=2_000), np.repeat(np.arange(2_000), 4)
    found = dependence(np.repeat(values, 4), groups)
    assert (found.queries, found.clusters, found.largest) == (8_000, 2_000, 4)
    assert found.design_effect == pytest.approx(4, rel=1e-3)
    assert found.effective == pytest.approx(2_000, rel=1e-3)


def test_clusters_of_strangers_cost_nothing() -> None:
    values, groups = np.random.default_rng(2).normal(size=8_000), np.repeat(np.arange(2_000), 4)
    assert dependence(values, groups).design_effect == pytest.approx(1, abs=0.1)


def test_without_clusters_the_effect_is_one() -> None:
    found = dependence(np.array([0.0, 0.5, 1.0]), None)
    assert (found.clusters, found.largest) == (3, 1)
    assert found.design_effect == pytest.approx(1)


@pytest.mark.parametrize("values", [np.zeros(4), np.full(4, 0.5)])
def test_values_without_spread_are_taken_for_copies(values: NDArray[np.float64]) -> None:
    found = dependence(values, np.array([0, 0, 0, 1]))
    assert found.effective == 16 / 10


def test_one_cluster_is_worth_one_query() -> None:
    assert dependence(np.array([0.1, 0.9]), np.zeros(2, np.int64)).effective == 1


def test_no_value_is_refused() -> None:
    with pytest.raises(EvidenceError, match="no value came"):
        dependence(np.empty(0), None)
