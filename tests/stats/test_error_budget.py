"""What a chain of stages may err."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.stats.error_budget import BudgetedStage, error_budget


def stage(name: str, *, waits: bool = True, attempts: int = 1) -> BudgetedStage:
    return BudgetedStage(name, waits, attempts)


CHAIN = (stage("shadow", waits=False), stage("tantivy"), stage("hybrid"))


def test_a_chain_errs_no_more_than_one_stage() -> None:
    found = error_budget(CHAIN, confidence=0.95)
    assert found.level == pytest.approx(0.025)
    assert found.by_stage == pytest.approx((0.025, 0.025, 0.025))
    assert found.together == pytest.approx(0.025)


def test_a_second_attempt_is_a_second_chance_to_err() -> None:
    found = error_budget((*CHAIN[:2], stage("hybrid", attempts=3)), confidence=0.95)
    assert found.by_stage == pytest.approx((0.025, 0.025, 0.075))
    assert found.together == pytest.approx(0.075)


def test_chains_side_by_side_add_up() -> None:
    stages = (*CHAIN, stage("other", waits=False, attempts=2), stage("last"))
    assert error_budget(stages, confidence=0.9).together == pytest.approx(0.05 + 0.1)
    assert error_budget([stage("one", waits=False, attempts=90)], confidence=0.9).together == 1.0


def test_no_truth_makes_a_chain_err_more_than_its_account() -> None:
    """Three stages at their bounds or well, in every combination, with evidence that they share."""
    rng = np.random.default_rng(6)
    common, own = rng.normal(size=(20_000, 1)), rng.normal(size=(20_000, 3))
    seen = (common + own) / np.sqrt(2)
    limit = error_budget(CHAIN, confidence=0.95).together
    for at in range(8):
        good = np.array([at & 1, at & 2, at & 4], dtype=bool)
        promoted = np.logical_and.accumulate(seen + 3.0 * good > 1.959964, axis=1)
        wrong = (promoted & ~good).any(axis=1).mean()
        assert wrong <= limit + 3 * np.sqrt(limit / 20_000)


@pytest.mark.parametrize(
    ("stages", "confidence", "said"),
    [
        (CHAIN[1:], 0.95, "none before"),
        ([stage("one", waits=False, attempts=0)], 0.95, "0 times"),
        (CHAIN, 1.0, "between 0 and 1"),
    ],
)
def test_what_cannot_be_added_up_is_refused(
    stages: list[BudgetedStage], confidence: float, said: str
) -> None:
    with pytest.raises(EvidenceError, match=said):
        error_budget(stages, confidence=confidence)
