"""Holm's adjusted p-values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.stats.significance import adjusted


def test_worked_example_of_holm() -> None:
    found = adjusted(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_later_steps_never_fall_below_earlier_ones_or_rise_above_one() -> None:
    assert adjusted(np.array([0.3, 0.31, 0.9])).tolist() == pytest.approx([0.9, 0.9, 0.9])
    assert adjusted(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_lies_above_the_p_values_and_keeps_their_order(p_values: list[float]) -> None:
    raw = np.array(p_values, dtype=np.float64)
    found = adjusted(raw)
    assert (found >= raw).all()
    assert (np.diff(found[np.argsort(raw, kind="stable")]) >= 0).all()


@given(st.permutations([0.001, 0.02, 0.2, 0.7]))
def test_order_of_the_tests_does_not_matter(p_values: list[float]) -> None:
    found = dict(zip(p_values, adjusted(np.array(p_values)).tolist(), strict=True))
    assert [found[p] for p in (0.001, 0.02, 0.2, 0.7)] == pytest.approx([0.004, 0.06, 0.4, 0.7])


@pytest.mark.parametrize("broken", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(broken: float) -> None:
    with pytest.raises(EvidenceError, match="between 0 and 1"):
        adjusted(np.array([0.2, broken]))
