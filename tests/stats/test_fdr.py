"""Adjusted p-values of Benjamini and Hochberg."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.core.errors import EvidenceError
from harness.stats import significance
from harness.stats.significance import fdr_adjusted


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_agrees_with_scipy_and_is_never_stricter_than_holm(p_values: list[float]) -> None:
    raw = np.array(p_values, dtype=np.float64)
    assert fdr_adjusted(raw) == pytest.approx(stats.false_discovery_control(raw))
    assert (fdr_adjusted(raw) <= significance.adjusted(raw) + 1e-12).all()


def test_worked_example() -> None:
    found = fdr_adjusted(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found.tolist() == pytest.approx([0.02, 0.04, 0.04, 0.02])


@pytest.mark.parametrize("broken", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(broken: float) -> None:
    with pytest.raises(EvidenceError, match="between 0 and 1"):
        fdr_adjusted(np.array([0.2, broken]))
