"""What a policy needs before anything is judged: by rule, by pilot, and by what is at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from harness.core.records import Qrels
from harness.core.scores import Scores
from harness.gates.base.rules import GateSettings
from harness.load.rates import fewest_rounds, median_of
from harness.policy.decision import asked_means
from harness.policy.load import load_policy
from harness.policy.model import Gate, Policy
from harness.policy.plan import (
    MOVED,
    Assumed,
    AtHand,
    Counted,
    MeanForecast,
    Need,
    Planned,
    PlannedStep,
    Raced,
    needs,
    plan,
)
from harness.stats.bounded import Span, chance_above
from harness.stats.inference import Inference
from harness.stats.interval import interval_each
from tests.policy.tried import RULES, evidence, gate, step
from tests.source import ROOT

pytestmark = pytest.mark.slow

IDS = [f"q{at}" for at in range(60)]
SET = AtHand.of(
    IDS,
    Qrels({q: {"d": int(at < 50)} for at, q in enumerate(IDS[:55])}),
    {"short": frozenset(IDS[:20])},
    {IDS[0]: "same", IDS[1]: "same"},
    Raced(2, 30),
)


def of(*gates: Gate) -> Policy:
    return Policy("p", 1, 1, RULES, (step(*gates),), chained=False)


def planned(*gates: Gate, pilot: bool = False, **assume: float) -> tuple[Planned, ...]:
    pilots = {"s": evidence()} if pilot else {}
    (found,) = plan(of(*gates), SET, pilots, Assumed(**assume))
    return found.needs


def only(asked: Gate, **assume: float) -> Need:
    (found,) = needs(asked, RULES, SET, None, Assumed(**assume))
    return found


def test_a_query_set_is_counted_by_what_its_queries_are_good_for() -> None:
    assert SET.every() == Counted(60, 59)
    assert SET.of_quality(None) == Counted(50, 49)
    assert SET.of_quality("short") == Counted(20, 19)
    assert SET.of_quality("unknown") == Counted(0, 0)
    assert SET.without_answer() == Counted(5, 5)


@pytest.mark.parametrize(
    ("asked", "least", "have", "of"),
    [
        (gate("non_inferior", margin=0.02), 188, 50, "queries"),
        (gate("non_inferior", margin=0.05, slice="short"), 74, 20, "queries of slice short"),
        (gate("non_inferior", margin=0.05, min_queries=90), 90, 50, "queries"),
        (gate("equivalent", margin=0.05), 74, 50, "queries"),
        (gate("negatives", depth=10, max_more=0.1), 36, 5, "negative queries"),
        (gate("agreement_floor", measure="Jaccard@50", floor=0.8), 17, 60, "queries"),
        (gate("failure_rate", max_share=0.05), 72, 60, "queries"),
        (gate("duplicates", max_share=0.05), 72, 60, "queries"),
    ],
)  # fmt: skip
def test_the_fewest_queries_follow_from_the_rule(
    asked: Gate, least: int, have: int, of: str
) -> None:
    found = only(asked)
    assert (found.least, found.of) == (least, of)
    assert found.have is not None
    assert found.have.queries == have


def test_a_gate_that_holds_at_every_look_asks_for_more() -> None:
    found = only(gate("non_inferior", margin=0.05, looks="anytime"))
    assert found.least > only(gate("non_inferior", margin=0.05)).least
    assert "queries are added" in found.note


def test_fewer_than_the_fewest_never_pass_and_so_many_do() -> None:
    """The number is that of the gate itself, where no query differs."""
    given, asked = evidence(400, spread=0.0), gate("non_inferior", margin=0.05)
    (need,) = needs(asked, RULES, SET, given, Assumed())
    for queries, verdict in ((need.least - 1, "inconclusive"), (need.least, "pass")):
        few = replace(
            given,
            control=replace(given.control, scores=_first(given.control.scores, queries)),
            candidate=replace(given.candidate, scores=_first(given.candidate.scores, queries)),
        )
        assert str(asked.judge(few, RULES).verdict) == verdict


def _first(scores: Mapping[str, Scores], count: int) -> dict[str, Scores]:
    one = scores["nDCG@10"]
    ids = one.query_ids[:count]
    return {"nDCG@10": replace(one, query_ids=ids, values=one.values[:count], undefined={})}


def test_each_slice_is_planned_with_its_margin() -> None:
    asked = gate("no_slice_harmed", margin=0.1, margins={"odd": 0.2})
    found = needs(asked, RULES, None, None, Assumed())
    assert [one.note for one in found] == ["it asks for slices, and none is at hand"]
    at_hand = replace(SET, slices={"even": frozenset(IDS[::2]), "odd": frozenset(IDS[1::2])})
    found = needs(asked, RULES, at_hand, None, Assumed())
    assert [(one.of, one.least) for one in found] == [
        ("queries of slice even", 36),
        ("queries of slice odd", 17),
    ]
    assert [one.limit for one in asked_means(asked.settings, ["even", "odd"])] == [-0.1, -0.2]


def test_a_gain_is_assumed_and_said() -> None:
    (twice,) = planned(gate("superior", margin=0.05), pilot=True)
    assert twice.need.forecast is not None
    assert twice.need.forecast.said.startswith("a true gain of 0.1, spread 0.")
    (more,) = planned(gate("superior", margin=0.05), pilot=True, gain=0.2)
    assert more.queries < twice.queries
    for assume in ({}, {"gain": 0.0}):
        (none,) = planned(gate("superior", margin=0.0), pilot=True, **assume)
        assert none.alone is None
        assert "name one with --gain" in none.need.note


def test_the_planned_number_passes_with_its_power() -> None:
    asked = gate("non_inferior", margin=0.02)
    (found,) = planned(asked, pilot=True)
    forecast = found.need.forecast
    assert isinstance(forecast, MeanForecast)
    assert found.alone is not None
    centred = forecast.values - forecast.values.mean()
    drawn = np.random.default_rng(1).choice(centred, (found.alone, 300))
    ends = interval_each(
        drawn,
        span=forecast.span,
        inference=Inference(confidence=0.95, resamples=1_000, seed=1),
        clusters=None,
    )
    power = float(np.mean([one.low > -0.02 for one in ends]))
    assert 0.8 - 0.05 < power < 0.95


def test_gates_that_must_all_pass_ask_for_more_than_one() -> None:
    asked = gate("non_inferior", margin=0.02)
    (alone,) = planned(asked, pilot=True)
    first, *_ = planned(asked, gate("equivalent", "e"), pilot=True)
    assert alone.alone == alone.together == first.alone
    assert first.together is not None
    assert first.together > (first.alone or 0)
    assert first.lacks == first.queries - 50


def test_a_spread_stands_in_for_a_pilot() -> None:
    (without,) = planned(gate("non_inferior"))
    assert without.alone is None
    assert "--spread" in without.need.note
    assert without.queries == without.need.least
    sizes = [planned(gate("non_inferior"), spread=spread)[0].queries for spread in (0.1, 0.4)]
    assert sizes[0] < sizes[1]


def test_a_share_is_planned_by_the_rate_of_the_pilot() -> None:
    (found,) = planned(gate("failure_rate", max_share=0.05), pilot=True)
    assert found.need.forecast is not None
    assert found.need.forecast.said == "a share of 0.00%"
    assert found.alone == found.need.least == 72
    assert found.lacks == 72 - 59


@pytest.mark.parametrize("floor", [0.2, 0.999])
def test_agreement_is_planned_where_it_was_seen(floor: float) -> None:
    (found,) = planned(gate("agreement_floor", measure="Jaccard@10", floor=floor), pilot=True)
    assert found.impossible or found.alone or found.need.note


def test_a_race_is_counted_in_processes_and_queries() -> None:
    asked = gate("latency_ratio", percent="p95", max_ratio=2.0, max_noise=1.5, max_stolen=0.1)
    (found,) = planned(asked)
    assert (found.need.least, found.need.processes) == (86, 3)
    assert (found.lacks, found.lacks_processes) == (56, 1)
    (whole,) = plan(of(asked), SET, {})
    assert whole.lacking == ("56 queries raced", "1 processes")
    (nothing,) = plan(of(asked), None, {})
    assert nothing.lacking == ()


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_a_load_test_needs_the_rounds_that_its_interval_does(confidence: float) -> None:
    count = fewest_rounds(confidence)
    assert median_of(range(count), confidence=confidence) is not None
    assert median_of(range(count - 1), confidence=confidence) is None


def test_what_is_not_at_hand_is_named_once_by_its_largest_need() -> None:
    gates = gate("non_inferior", "a", margin=0.05), gate("non_inferior", "b", margin=0.02)
    (found,) = plan(of(*gates), SET, {})
    assert isinstance(found, PlannedStep)
    assert found.lacking == ("139 queries",)


def test_every_rule_is_planned_or_says_that_it_is_not() -> None:
    """Of every shipped policy each gate has a need; none is left out."""
    seen = set()
    for path in sorted((ROOT / "policy").glob("*.toml")):
        if "[policy]" not in path.read_text():
            continue
        policy = load_policy(path)
        for one in plan(policy, SET, {}):
            assert {each.gate.name for each in one.needs} == {g.name for g in one.step.gates}
            for each in one.needs:
                seen.add(each.gate.rule.name)
                assert each.need.least or each.need.note, (path, each.gate.name)
                assert "cannot be planned" not in each.need.note, (path, each.gate.name)
    assert len(seen) > 8


class Strange(GateSettings):
    """Of a rule that no plan knows."""

    @property
    def bound(self) -> str:
        return "strange"

    @property
    def unit(self) -> str:
        return "strangeness"


def test_a_rule_of_another_kind_is_named() -> None:
    strange = replace(gate("identity"), settings=Strange())
    assert only(strange).note == "rule identity cannot be planned"


def test_an_equal_candidate_takes_what_its_moves_cost() -> None:
    """The numbers pass equal candidates with the policy's power, by the bound itself."""
    found = dict(only(gate("non_inferior", margin=0.05)).equal)
    assert list(found) == list(MOVED)
    rng = np.random.default_rng(1)
    for moved, queries in found.items():
        ways = rng.choice([0.5, -0.5, 0.0], (queries, 1_000), p=[moved / 2, moved / 2, 1 - moved])
        level, span = RULES.level / 2, Span(-1.0, 1.0)
        passed = chance_above(ways, -0.05, span=span, clusters=None) < level
        assert passed.mean() == pytest.approx(RULES.power, abs=0.05), moved
    assert not only(gate("superior", margin=0.05)).equal
    (both,) = planned(gate("equivalent", margin=0.05))
    assert dict(both.need.equal)[0.3] > found[0.3]


def test_what_a_small_set_can_decide_is_said() -> None:
    """Fewer than a measured gain of a tenth are too few to pass, though most queries gain."""
    asked = gate("superior", margin=0.0)
    given = evidence(30, spread=0.1)
    for gain, verdict in ((-0.02, "inconclusive"), (0.02, "pass")):
        (found,) = plan(of(asked), SET, {"s": given}, Assumed(gain=0.1))[0].needs
        forecast = found.need.forecast
        assert isinstance(forecast, MeanForecast)
        ends = forecast.decides(RULES, 30)
        assert ends is not None
        assert ends[1] < 0.1 < ends[0]
        assert found.decides(RULES) == forecast.decides(RULES, 50)
        control = given.control.scores["nDCG@10"]
        moved = forecast.values - forecast.values.mean() + ends[0] + gain
        measured = {"nDCG@10": replace(control, values=control.values + moved)}
        few = replace(given, candidate=replace(given.candidate, scores=measured))
        assert str(asked.judge(few, RULES).verdict) == verdict
    (both,) = planned(gate("equivalent", margin=0.05), pilot=True)
    assert both.decides(RULES) is None
