"""What an adversary hides from gates and policies; few trials, with their tolerance.

``--all`` draws more. The same functions as tables: ``benchmarks/adversarial.py``.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchmarks.adversaries import Family, families, rare, steps
from benchmarks.simulated_bounds import WAYS, needed, worst, wrong
from benchmarks.simulated_differences import evidence_of
from benchmarks.simulated_gates import GATES, GateCase, at_bound, fails, passes, power
from benchmarks.simulated_sizes import EACH, QUERIES, grouped, sized
from benchmarks.simulated_slices import losing, sliced
from harness.core.gate import Verdict
from harness.gates import non_inferior
from harness.gates.base.rules import Rules
from tests.stats.test_simulations import Draws, chance

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
    for family in families():
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
        values = rare(rng, (60, 12), mean, lost=max(0.02, -mean))
        assert values is not None
        each = zip(passes(asked, values, None), fails(asked, values, None), strict=True)
        for at, (passed, failed) in enumerate(each):
            found = non_inferior.judge("Q", settings, evidence_of(values[:, at]), rules).verdict
            assert (found is Verdict.PASS, found is Verdict.FAIL) == (passed, failed)
            said.add(found)
    assert said == set(Verdict)


def test_no_other_bound_takes_fewer_queries_and_keeps_the_level() -> None:
    """What a policy says of losses that nobody saw is what rare losses break."""
    assert wrong("losses of a half at most", 200, 400)[0] > 0.05
    for way in ("Gaffke", "bets of fixed size", "bets that learn"):
        assert wrong(way, 75, 400)[0] <= chance(LEVEL, 400)
    counts = {way: needed(way, 0.1, 100) for way in WAYS}
    assert counts["Gaffke"] == min(count for count in counts.values() if count)


def test_no_values_are_found_that_break_the_bound() -> None:
    assert 0.015 < worst(10, 3, 150).chance <= LEVEL


@pytest.mark.parametrize("queries", QUERIES)
def test_paraphrases_that_are_known_keep_the_level(queries: int, draws: Draws) -> None:
    trials = draws(400, 4_000)
    for each in EACH:
        assert grouped(queries, each, trials, known=True) <= chance(LEVEL, trials)
    assert grouped(200, 8, trials, known=False) > 0.4


@pytest.mark.parametrize("share", [0.005, 0.02, 0.1])
def test_large_clusters_that_were_not_seen_keep_the_level(share: float, draws: Draws) -> None:
    trials = draws(400, 4_000)
    for queries in QUERIES:
        for bad in (1.0, 0.5):
            found = sized(queries, share, trials, largest=share, losing=bad)
            assert found <= chance(LEVEL, trials)
    assert sized(200, 0.1, trials, largest=0.0) > 0.7


def test_slices_pass_by_evidence_and_fail_as_rarely(draws: Draws) -> None:
    trials = draws(200, 2_000)
    passed, failed, right = sliced(4, 150, 0.05, trials)
    assert passed <= chance(LEVEL, trials)
    assert failed <= chance(LEVEL, trials)
    assert right > 0.5
    for share, queries in ((1.0, 4), (0.2, 20), (0.3, 20), (0.4, 20)):
        assert losing(share, queries, 0.05, trials) <= 0.001


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
