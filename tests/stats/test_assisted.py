"""A machine's judgements narrow a difference, and never move it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.simulated_judges import JUDGES, judged
from harness.core.errors import EvidenceError
from harness.stats.assisted import assisted, assisted_by_pairs, saved
from harness.stats.calibration import UniqueHits
from harness.stats.inference import Inference
from harness.stats.raters.kappa import kappa

RULES = Inference(confidence=0.95, resamples=500, seed=5)
Draws = Callable[[int, int], int]


def world(queries: int = 400, machine: str = "right") -> tuple[UniqueHits, float]:
    rng = np.random.default_rng(3)
    query = np.repeat(np.arange(queries), 10)
    weight = np.tile(np.array([0.1, -0.1], dtype=np.float64), queries * 5)
    chance = rng.beta(1, 1, 2 * queries)[2 * query + (weight > 0)]
    human = (rng.random(len(query)) < chance).astype(np.float64)
    said = {"right": human, "wrong": 1 - human, "mute": np.zeros(len(human))}[machine]
    true = float(np.bincount(query, weights=weight * human).mean())
    shown = UniqueHits(query, weight.astype(np.float64), human, said.astype(np.int64))
    return shown, true


def test_a_machine_that_is_right_leaves_what_the_others_leave_open() -> None:
    shown, true = world()
    found = assisted(shown, np.arange(400) < 80, clusters=None, inference=RULES)
    assert abs(found.assisted.value - true) < abs(found.human.value - true) + 1e-9
    assert found.saved > 0.6
    assert found.weight == pytest.approx(0.8, abs=0.1)
    assert found.calibration == (0.0, 1.0)
    assert found.assisted.low < true < found.assisted.high


def test_one_that_says_the_opposite_is_calibrated_and_a_mute_one_is_ignored() -> None:
    judged_ = np.arange(400) < 80
    right, _ = world()
    wrong, _ = world(machine="wrong")
    mute, _ = world(machine="mute")
    both = [assisted(one, judged_, clusters=None, inference=RULES) for one in (right, wrong, mute)]
    assert both[0].assisted == both[1].assisted
    assert both[1].calibration == (1.0, 0.0)
    assert both[2].saved == pytest.approx(0, abs=0.35)


def test_no_human_judgement_of_other_queries_is_used() -> None:
    shown, _ = world()
    people = np.arange(400) < 80
    hidden = shown._replace(human=np.where(people[shown.query], shown.human, np.nan))
    found = [assisted(one, people, clusters=None, inference=RULES) for one in (shown, hidden)]
    assert found[0] == found[1]


def test_clusters_widen_the_interval() -> None:
    shown, _ = world()
    twins = shown._replace(human=np.where(shown.query % 2, np.roll(shown.human, 10), shown.human))
    people = np.arange(400) < 80
    alone = assisted(twins, people, clusters=None, inference=RULES).human
    paired = assisted(twins, people, clusters=np.arange(400) // 2, inference=RULES).human
    assert paired.high - paired.low > 1.2 * (alone.high - alone.low)


@pytest.mark.parametrize("count", [9, 400])
def test_too_few_and_all_are_refused(count: int) -> None:
    with pytest.raises(EvidenceError, match=f"people judged {count} of 400 queries, and"):
        assisted(world()[0], np.arange(400) < count, clusters=None, inference=RULES)


def test_pairs_of_all_queries_say_more_than_as_many_of_whole_queries() -> None:
    shown, true = world()
    drawn = np.random.default_rng(1).permutation(len(shown.query)) < 800
    whole = assisted(shown, np.arange(400) < 80, clusters=None, inference=RULES)
    found = assisted_by_pairs(shown, drawn, queries=400, clusters=None, inference=RULES)
    assert saved(whole.human, found.human) > 0.1
    assert found.saved > 0.6
    assert found.calibration == (0.0, 1.0)
    for one in (found.human, found.assisted):
        assert one.low < true < one.high
        assert one.n == 400


def test_no_pair_that_people_did_not_judge_is_used() -> None:
    shown, _ = world(machine="mute")
    drawn = np.random.default_rng(1).permutation(len(shown.query)) < 800
    hidden = shown._replace(human=np.where(drawn, shown.human, np.nan))
    found = [
        assisted_by_pairs(one, drawn, queries=400, clusters=None, inference=RULES)
        for one in (shown, hidden)
    ]
    assert found[0] == found[1]
    assert found[0].saved == pytest.approx(0, abs=0.1)


def test_clusters_widen_the_interval_of_pairs() -> None:
    shown, _ = world()
    twins = shown._replace(human=np.where(shown.query % 2, np.roll(shown.human, 10), shown.human))
    drawn = np.random.default_rng(1).permutation(len(shown.query)) < 3_500
    alone, paired = (
        assisted_by_pairs(twins, drawn, queries=400, clusters=clusters, inference=RULES).human
        for clusters in (None, np.arange(400) // 2)
    )
    assert paired.high - paired.low > 1.1 * (alone.high - alone.low)


@pytest.mark.parametrize("count", [49, 4_000])
def test_too_few_pairs_and_all_are_refused(count: int) -> None:
    drawn = np.arange(4_000) < count
    with pytest.raises(EvidenceError, match=f"people judged {count} of 4000 pairs, and"):
        assisted_by_pairs(world()[0], drawn, queries=400, clusters=None, inference=RULES)


def test_kappa_by_hand() -> None:
    one = np.array([1.0] * 20 + [1] * 5 + [0] * 10 + [0] * 15)
    other = np.array([1.0] * 20 + [0] * 5 + [1] * 10 + [0] * 15)
    estimate = kappa(one, other, np.arange(50), confidence=0.95)
    assert estimate.value == pytest.approx(0.4)
    assert estimate.low < 0.4 < estimate.high
    assert estimate.n == 50
    same = kappa(np.ones(5), np.ones(5), np.arange(5), confidence=0.95)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 1.0)
    with pytest.raises(EvidenceError, match="2 queries were judged twice"):
        kappa(one[:2], other[:2], np.arange(2), confidence=0.95)


def chance(rate: float, trials: int) -> float:
    return rate + 3.1 * math.sqrt(rate * (1 - rate) / trials)


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.sampled(2)
@pytest.mark.parametrize("pairs", [False, True], ids=["queries", "pairs"])
@pytest.mark.parametrize("name", JUDGES)
def test_whatever_the_machine_errs_the_interval_is_valid(
    name: str, draws: Draws, *, pairs: bool
) -> None:
    trials = draws(40, 1_000)
    found = judged(JUDGES[name], trials, pairs=pairs)
    assert 1 - found.coverage <= chance(0.06, trials)
    assert found.promoted <= chance(0.03, trials)
    if name == "partial to the candidate":
        assert found.believed > 0.9, "the fault that it is against is not there"
    if name == "agrees in 95 %":
        assert found.saved is not None
        assert found.saved > 0.6
    if name in {"guesses", "says the opposite"}:
        assert found.trusted < 0.05


@pytest.mark.slow
@pytest.mark.simulation
def test_a_machine_that_agrees_in_85_percent_saves_half_of_the_labels(draws: Draws) -> None:
    found = judged(JUDGES["agrees in 85 %"], draws(10, 200), pairs=True)
    assert found.saved is not None
    assert found.by_machine is not None
    assert found.saved > 0.5 > found.by_machine > 0.35
