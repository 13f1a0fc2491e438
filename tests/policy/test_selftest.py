"""Gates tried where the truth is known: each trial is judged as the gate judges it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.gates.base.differences import compare
from harness.policy.decision import asked_means
from harness.policy.model import Policy
from harness.policy.selftest import GROUP, Pattern, Values, draw, passed, selftest
from tests.policy.tried import MARGIN, RULES, evidence, gate, judged, step

QUERIES, TRIALS = 300, 2_000
GATES = [
    gate("non_inferior"),
    gate("non_inferior", slice="odd", margin=0.12),
    gate("superior", margin=0.05),
    gate("equivalent"),
]


def values(queries: int = QUERIES, spread: float = 0.1) -> Values:
    rng = np.random.default_rng(3)
    control = rng.uniform(0.3, 0.9, queries)
    candidate = np.clip(control + rng.normal(0, spread, queries), 0, 1)
    return Values(control, candidate, np.arange(queries))


def tried(*gates: Any, trials: int = 200, **given: Any) -> Any:  # noqa: ANN401  results
    policy = Policy("p", 1, 7, RULES, (step(*gates),), chained=False)
    return selftest(policy, {"s": evidence(**given)}, trials=trials)


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("truth", [-0.05, 0.05, -0.01])
def test_the_true_mean_is_the_one_that_is_asked_for(pattern: Pattern, truth: float) -> None:
    drawn = draw(pattern, values(), truth, trials=TRIALS, seed=7)
    assert drawn is not None
    means = drawn.differences.mean(axis=0)
    assert drawn.differences.shape == (QUERIES, TRIALS)
    assert means.mean() == pytest.approx(truth, abs=4 * means.std() / TRIALS**0.5)


def test_queries_of_one_cluster_are_lost_together() -> None:
    given = values(60)._replace(clusters=np.repeat(np.arange(15), 4))
    whole = draw(Pattern.CLUSTERED, given, -0.1, trials=5, seed=7)
    assert whole is not None
    assert whole.clusters is not None
    assert np.bincount(whole.clusters).max() == 4 * GROUP
    assert (whole.clusters.reshape(15, 4) == whole.clusters.reshape(15, 4)[:, :1]).all()


def test_a_loss_larger_than_all_there_is_cannot_be_planted() -> None:
    small = values()._replace(control=np.full(QUERIES, 0.01), candidate=np.full(QUERIES, 0.01))
    nothing = Values(np.zeros(40), np.zeros(40), np.arange(40))
    for pattern in Pattern:
        assert draw(pattern, small, -0.05, trials=5, seed=7) is None
        assert draw(pattern, nothing, -0.01, trials=5, seed=7) is None
    assert draw(Pattern.CLUSTERED, values(GROUP), -0.01, trials=5, seed=7) is None


def test_one_query_or_no_trial_is_refused() -> None:
    for queries, trials in ((1, 5), (20, 0)):
        with pytest.raises(EvidenceError, match="two independent queries and one trial"):
            draw(Pattern.RARE, values(queries), -0.01, trials=trials, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("asked", GATES, ids=lambda asked: asked.name)
@pytest.mark.parametrize("given", [evidence(), evidence(clusters=3), evidence(lost=3)])
def test_each_column_is_judged_as_the_gate_judges_it(asked: Any, given: Any) -> None:  # noqa: ANN401
    (mean,) = asked_means(asked.settings, given.slices)
    compared = compare(given, mean.settings, mean.versus)
    known = np.arange(len(compared.paired.query_ids)) if compared.known is None else compared.known
    of = Values(compared.paired.control, compared.paired.candidate, known)
    truth = 2.2 * mean.limit if asked.name == "superior" else 0.4 * mean.limit
    drawn = draw(Pattern.SCATTERED, of, truth, trials=12, seed=5)
    assert drawn is not None
    ids = compared.paired.query_ids
    place = [ids.index(q) if q in ids else 0 for q in given.candidate.scores["nDCG@10"].query_ids]
    said = passed(mean, compared, drawn, RULES)
    alone = [judged(asked, given, drawn.differences[place, at], RULES.seed) for at in range(12)]
    assert said.tolist() == [verdict == "pass" for verdict in alone]


def test_a_gate_errs_rarely_under_every_pattern() -> None:
    (found,) = tried(gate("non_inferior"), trials=400)
    rates = {one.pattern: one.passed for one in found.planted}
    assert set(rates) == set(map(str, Pattern))
    assert all(rate.low <= 0.025 for rate in rates.values())
    assert found.fine is not None
    assert found.fine.value > 0.8


def test_a_gate_on_slices_is_as_wrong_as_its_worst_slice() -> None:
    (found,) = tried(gate("no_slice_harmed", margins={"odd": 0.2}))
    assert (found.what, found.limit) in {
        ("nDCG@10 on slice even", -MARGIN),
        ("nDCG@10 on slice odd", -0.2),
    }


def test_a_gain_counts_as_fine_at_twice_the_bound() -> None:
    far, near = tried(gate("superior", margin=0.2), gate("superior", margin=0.02))
    assert far.fine.value > 0.8
    assert near.fine.value < 0.2


def test_other_rules_and_too_few_queries_are_not_tried() -> None:
    assert tried(gate("non_inferior", min_queries=500), gate("identity")) == ()
