"""Rates of a gate where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules, above
from harness.policy import planted
from harness.policy.planted import Values, count

RULES = Rules(confidence=0.95, resamples=1000, seed=7, power=0.8)
QUERIES, TRIALS = 300, 200


def values(queries: int = QUERIES, spread: float = 0.1) -> Values:
    rng = np.random.default_rng(3)
    control = rng.uniform(0.3, 0.9, queries)
    candidate = np.clip(control + rng.normal(0, spread, queries), 0, 1)
    return Values(control, candidate, np.arange(queries))


def test_a_gate_errs_no_more_often_than_its_level_and_is_not_idle() -> None:
    found = count(values(), limit=-0.05, rules=RULES, trials=TRIALS)
    assert found.false_promote is not None
    assert found.false_hold is not None
    assert found.false_promote.low <= 0.025
    assert found.false_promote.n == TRIALS
    assert found.false_hold.value < 0.05


def test_the_smallest_loss_is_seen_as_often_as_the_power_says() -> None:
    found = count(values(), limit=-0.05, rules=RULES, trials=TRIALS)
    assert found.smallest_loss is not None
    assert found.seen is not None
    assert 0.8 <= found.seen.value < 0.9
    more = count(values(4 * QUERIES), limit=-0.05, rules=RULES, trials=TRIALS)
    assert more.smallest_loss is not None
    assert more.smallest_loss < 0.7 * found.smallest_loss


def test_too_few_queries_hold_what_is_as_good() -> None:
    found = count(values(40, spread=0.3), limit=-0.02, rules=RULES, trials=TRIALS)
    assert found.false_hold is not None
    assert found.false_hold.value > 0.5


def test_a_gain_is_planted_as_a_loss_of_the_other_arm() -> None:
    found = count(values(), limit=0.05, rules=RULES, trials=TRIALS)
    assert found.false_promote is not None
    assert found.false_promote.low <= 0.025
    assert found.false_hold is not None
    assert found.false_hold.value < 0.5
    assert count(values(), limit=0.0, rules=RULES, trials=TRIALS).false_hold is None


def test_a_loss_larger_than_all_there_is_cannot_be_planted() -> None:
    small = values()._replace(control=np.full(QUERIES, 0.01), candidate=np.full(QUERIES, 0.01))
    found = count(small, limit=-0.05, rules=RULES, trials=TRIALS)
    assert found.false_promote is None


def test_the_same_seed_gives_the_same_rates() -> None:
    first = count(values(), limit=-0.05, rules=RULES, trials=50)
    assert count(values(), limit=-0.05, rules=RULES, trials=50) == first


def test_trials_in_blocks_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "CELLS_AT_ONCE", 16 * QUERIES)
    found = count(values(), limit=-0.05, rules=RULES, trials=50)
    assert isinstance(found.false_hold, Estimate)
    assert found.false_hold.n == 50


def test_queries_of_one_intent_are_swapped_together() -> None:
    """Four copies of a query are one query: they show no more than it alone."""
    alone = values(75)
    control, candidate = np.repeat(alone.control, 4), np.repeat(alone.candidate, 4)
    copies = Values(control, candidate, np.repeat(alone.clusters, 4))
    found, one = (count(of, limit=-0.05, rules=RULES, trials=TRIALS) for of in (copies, alone))
    assert found.smallest_loss == pytest.approx(one.smallest_loss, rel=0.1)
    apart = copies._replace(clusters=np.arange(QUERIES))
    more = count(apart, limit=-0.05, rules=RULES, trials=TRIALS)
    assert more.smallest_loss is not None
    assert found.smallest_loss is not None
    assert more.smallest_loss < 0.7 * found.smallest_loss


def test_a_gate_that_is_too_eager_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict that is counted is the gates' own."""
    monkeypatch.setattr(planted, "above", lambda found, bound: above(found, bound - 0.03))
    found = count(values(), limit=-0.05, rules=RULES, trials=TRIALS)
    assert found.false_promote is not None
    assert found.false_promote.low > 0.5


@pytest.mark.parametrize(("queries", "trials"), [(1, 5), (QUERIES, 0)])
def test_nothing_to_try_is_refused(queries: int, trials: int) -> None:
    with pytest.raises(EvidenceError, match="two independent queries and one trial"):
        count(values(queries), limit=-0.05, rules=RULES, trials=trials)
