"""Differences that a machine assists, and how its grades are calibrated."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.verdict_families import FAMILIES
from benchmarks.verdicts import cell
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.bounded import bounded_each
from harness.stats.inference import Inference
from harness.stats.prediction import DIFFERENCES, UniqueHits, assisted, calibration, expected
from harness.stats.raters import kappa
from tests.make.chances import chance

RULES = Inference(confidence=0.95, resamples=500, seed=5)


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


def width(of: Estimate) -> float:
    return of.high - of.low


def test_people_alone_have_the_finite_sample_bound() -> None:
    shown, _ = world()
    found = assisted(shown, np.arange(400) < 80, clusters=None, inference=RULES)
    sums = np.bincount(shown.query, shown.weight * shown.human)[:80].astype(np.float64)
    ends = bounded_each(sums.reshape(-1, 1), span=DIFFERENCES, level=0.025, clusters=None)
    assert (found.human.low, found.human.high) == (ends.low[0], ends.high[0])


def test_a_machine_that_is_right_leaves_what_the_others_leave_open() -> None:
    shown, true = world()
    found = assisted(shown, np.arange(400) < 80, clusters=None, inference=RULES)
    assert abs(found.assisted.value - true) < abs(found.human.value - true) + 1e-9
    assert width(found.assisted) < 0.6 * width(found.human)
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
    assert both[2].weight == pytest.approx(0, abs=0.35)


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


def test_rare_losses_that_a_machine_does_not_see_do_not_pass() -> None:
    family = next(one for one in FAMILIES if one.part == "C.3")
    found = cell(family, 200, 100, "test")
    assert found.false <= chance(family.promised, 100)


ALL = np.ones(8, dtype=bool)


def hits(query: list[int], human: list[float], machine: list[int]) -> UniqueHits:
    weight = np.ones(len(query), dtype=np.float64)
    return UniqueHits(np.array(query), weight, np.array(human), np.array(machine))


def test_a_grade_that_people_never_judged_has_no_share() -> None:
    shown = UniqueHits(
        np.zeros(3, int), np.ones(3), np.array([1.0, 0.0, np.nan]), np.array([0, 0, 1])
    )
    assert calibration(shown, np.array([True, True, False])) == (0.5, None)


def test_documents_of_one_grade_differ_by_what_the_others_of_their_query_are() -> None:
    """A grade of 1 is right in the query of good documents, and wrong in that of bad ones."""
    shown = hits([0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 1, 0, 0, 0], [1, 1, 1, 0, 1, 0, 0, 1])
    found = expected(shown, ALL)
    assert found[0] > found[7] > 0
    by_grade = np.array([4 / 5] * 3 + [0, 4 / 5, 0, 0, 4 / 5])
    squares = [((shown.human - one) ** 2).sum() for one in (found, by_grade)]
    assert squares[0] < squares[1]


def test_where_queries_say_nothing_more_each_grade_counts_as_its_share() -> None:
    shown = hits([0, 1, 2, 3], [1, 0, 1, 0], [1, 1, 0, 0])
    assert expected(shown, ALL[:4]).tolist() == [0.5] * 4


def test_only_judged_documents_teach_and_a_grade_without_any_counts_as_all() -> None:
    shown = hits([0, 1, 2, 3], [1, 0, 1, np.nan], [0, 0, 0, 1])
    judged = ~np.isnan(shown.human)
    assert expected(shown, judged) == pytest.approx(np.array([2 / 3] * 4))
    assert expected(shown, np.zeros(4, dtype=bool)).tolist() == [0.0] * 4
