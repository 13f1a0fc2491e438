"""Trials in which the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.policy.selftest.planted import BURST, GROUP, Pattern, Values, draw, in_bursts, masked

QUERIES, TRIALS = 300, 2_000


def values(queries: int = QUERIES, spread: float = 0.1) -> Values:
    rng = np.random.default_rng(3)
    control = rng.uniform(0.3, 0.9, queries)
    candidate = np.clip(control + rng.normal(0, spread, queries), 0, 1)
    return Values(control, candidate, np.arange(queries))


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("truth", [-0.05, 0.05, -0.01])
def test_the_true_mean_is_the_one_that_is_asked_for(pattern: Pattern, truth: float) -> None:
    drawn = draw(pattern, values(), truth, trials=TRIALS, seed=7)
    assert drawn is not None
    means = drawn.differences.mean(axis=0)
    assert drawn.differences.shape == (QUERIES, TRIALS)
    assert means.mean() == pytest.approx(truth, abs=4 * means.std() / TRIALS**0.5)


def test_without_a_truth_nothing_is_lost_but_the_noise_stays() -> None:
    given = values()
    drawn = draw(Pattern.SCATTERED, given, 0.0, trials=50, seed=7)
    assert drawn is not None
    apart = np.abs(given.candidate - given.control)
    assert np.allclose(np.abs(drawn.differences), apart[:, None])


def test_rare_losses_are_total_and_befall_the_best() -> None:
    given = values()
    drawn = draw(Pattern.RARE, given, -0.02, trials=200, seed=7)
    assert drawn is not None
    lost = (drawn.differences != 0).any(axis=1)
    assert given.control[lost].min() >= np.quantile(given.control, 0.7)
    assert np.allclose(drawn.differences[drawn.differences != 0].min(), -given.control.max())
    few = draw(Pattern.RARE, values(50), -0.02, trials=200, seed=7)
    assert few is not None
    assert (few.differences == 0).all(axis=0).mean() > 0.1, "a sample may show no loss at all"


def test_queries_of_one_cluster_are_swapped_and_lost_together() -> None:
    given = values(60)._replace(clusters=np.repeat(np.arange(15), 4))
    found = masked(given.clusters, 0.3, 40, np.random.default_rng(1))
    for mask in found:
        together = mask.reshape(15, 4, 40)
        assert (together == together[:, :1]).all()
    whole = draw(Pattern.CLUSTERED, given, -0.1, trials=5, seed=7)
    assert whole is not None
    assert whole.clusters is not None
    assert np.bincount(whole.clusters).max() == 16
    assert (whole.clusters.reshape(15, 4) == whole.clusters.reshape(15, 4)[:, :1]).all()


def test_bursts_lose_as_many_queries_but_together() -> None:
    rng = np.random.default_rng(1)
    found = in_bursts(500, 0.1, 400, rng)
    assert found.mean() == pytest.approx(0.1, abs=0.01)
    alone = rng.random((500, 400)) < 0.1
    assert found.sum(axis=0).var() > (BURST - 1.5) * alone.sum(axis=0).var()


def test_a_loss_larger_than_all_there_is_cannot_be_planted() -> None:
    small = values()._replace(control=np.full(QUERIES, 0.01), candidate=np.full(QUERIES, 0.01))
    assert all(draw(one, small, -0.05, trials=5, seed=7) is None for one in Pattern)


@pytest.mark.parametrize("pattern", Pattern)
def test_from_arms_that_find_nothing_nothing_can_be_lost(pattern: Pattern) -> None:
    nothing = Values(np.zeros(40), np.zeros(40), np.arange(40))
    assert draw(pattern, nothing, -0.01, trials=10, seed=7) is None


def test_so_few_queries_that_all_are_one_cluster_are_not_lost_in_clusters() -> None:
    assert draw(Pattern.CLUSTERED, values(GROUP), -0.01, trials=10, seed=7) is None
    drawn = draw(Pattern.CLUSTERED, values(GROUP + 1), -0.01, trials=10, seed=7)
    assert drawn is not None
    assert drawn.clusters is not None
    assert len(set(drawn.clusters.tolist())) == 2


def test_the_same_seed_gives_the_same_trials() -> None:
    one, two, other = (
        draw(Pattern.SCATTERED, values(), -0.05, trials=5, seed=seed) for seed in (7, 7, 8)
    )
    assert one is not None
    assert two is not None
    assert other is not None
    assert (one.differences == two.differences).all()
    assert (one.differences != other.differences).any()


@pytest.mark.parametrize(("queries", "trials"), [(1, 5), (QUERIES, 0)])
def test_nothing_to_try_is_refused(queries: int, trials: int) -> None:
    with pytest.raises(EvidenceError, match="two independent queries and one trial"):
        draw(Pattern.SCATTERED, values(queries), -0.05, trials=trials, seed=7)
