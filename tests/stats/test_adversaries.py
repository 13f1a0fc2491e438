"""What an adversary hides from gates and policies; few trials, with their tolerance.

``--all`` draws more. The same functions as tables: ``benchmarks/simulate.py``.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchmarks.simulate import (
    FAMILIES,
    GATES,
    Family,
    GateCase,
    at_bound,
    fails,
    passes,
    power,
    rare,
    steps,
)
from benchmarks.verdict_questions import scored
from harness.core.gate import Verdict
from harness.gates import non_inferior
from harness.gates.base.rules import Rules
from tests.make.chances import Draws, chance

pytestmark = [pytest.mark.slow, pytest.mark.simulation]
LEVEL = 0.025


@pytest.mark.parametrize("asked", GATES, ids=lambda asked: f"{asked.rule} {asked.limit:g}")
def test_no_family_passes_or_fails_a_gate_at_its_bound_too_often(
    asked: GateCase, draws: Draws
) -> None:
    trials = draws(400, 2_000)
    for queries in (20, 100):
        for found in at_bound(asked, queries, trials):
            assert found.passed.value <= chance(LEVEL, trials), found
            assert found.failed.value <= chance(LEVEL, trials), found


def test_families_have_the_mean_that_is_asked_for() -> None:
    rng = np.random.default_rng(3)
    for family in FAMILIES:
        for mean in (-0.1, -0.02, 0.0, 0.03, 0.6):
            drawn = family.sample(rng, 400, 1_000, mean)
            if drawn is not None:
                values, clusters = drawn
                assert np.abs(values).max() <= 1
                assert values.mean() == pytest.approx(mean, abs=0.012), (family.name, mean)
                assert (clusters is None) is (family.size == 1)


def test_the_simulated_gate_is_the_gate() -> None:
    """Column by column, the rule itself says the same."""
    rng = np.random.default_rng(5)
    asked = GateCase("non_inferior", -0.1, "above", 0.0)
    settings = non_inferior.Settings(measure="nDCG@10", margin=0.1)
    rules = Rules(confidence=0.95, resamples=1_000, seed=20_261_122, power=0.8)
    said = set()
    for mean in (0.0, -0.1, -0.3):
        values = rare(rng, (60, 12), mean, part=max(0.02, -mean))
        assert values is not None
        each = zip(passes(asked, values, None), fails(asked, values, None), strict=True)
        for at, (passed, failed) in enumerate(each):
            found = non_inferior.judge("Q", settings, scored(values[:, at]), rules).verdict
            assert (found is Verdict.PASS, found is Verdict.FAIL) == (passed, failed)
            said.add(found)
    assert said == set(Verdict)


def test_more_queries_pass_more_often() -> None:
    asked = GATES[0]
    few, many = (power(asked, queries, 100, 0.1) for queries in (100, 800))
    assert few is not None
    assert many is not None
    assert few < 0.3
    assert many > 0.9


def test_a_mean_that_a_family_cannot_have_is_left_out() -> None:
    rng = np.random.default_rng(1)
    assert Family("few move", partial(steps, moved=0.1)).sample(rng, 50, 5, 0.6) is None
