"""Plans of policies, and migrations by steps."""

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

from harness.core.records import Qrels
from harness.gates.base.differences import asked_means
from harness.load.rates import fewest_rounds, median_of
from harness.migrate import standing
from harness.policy import plan
from harness.policy.load import load_policy
from harness.policy.model import Gate, Policy
from harness.stats.bounded import ValueRange, chance_above
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.make.decisions import GATE, POLICY, day, decision
from tests.make.decisions import evidence as held
from tests.policy.tried import RULES, evidence, gate, step
from tests.source import ROOT

IDS = [f"q{at}" for at in range(60)]
SET = plan.AtHand.of(
    IDS,
    Qrels({q: {"d": int(at < 50)} for at, q in enumerate(IDS[:55])}),
    {"short": frozenset(IDS[:20])},
    {IDS[0]: "same", IDS[1]: "same"},
    plan.Raced(2, 30),
)


def of(*gates: Gate) -> Policy:
    return Policy("p", 1, 1, RULES, (step(*gates),), chained=False)


def planned(*gates: Gate, pilot: bool = False, **assume: float) -> tuple[plan.Need, ...]:
    pilots = {"s": evidence()} if pilot else {}
    (found,) = plan.plan(of(*gates), SET, pilots, plan.Assumed(**assume))
    return found.needs


def only(asked: Gate, **assume: float) -> plan.Need:
    (found,) = plan.needs(asked, RULES, SET, None, plan.Assumed(**assume))
    return found


def test_a_query_set_is_counted_by_what_its_queries_are_good_for() -> None:
    assert SET.count(SET.queries) == plan.IndependentQueries(60, 59)
    assert SET.count(SET.answerable) == plan.IndependentQueries(50, 49)
    assert SET.count(SET.answerable, "short") == plan.IndependentQueries(20, 19)
    assert SET.count(SET.answerable, "unknown") == plan.IndependentQueries(0, 0)
    assert SET.count(SET.negative) == plan.IndependentQueries(5, 5)


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
    asked = gate("non_inferior", margin=0.05)
    least = only(asked).least
    for queries, verdict in ((least - 1, "inconclusive"), (least, "pass")):
        assert str(asked.judge(evidence(queries, spread=0.0), RULES).verdict) == verdict


def test_each_slice_is_planned_with_its_margin() -> None:
    asked = gate("no_slice_harmed", margin=0.1, margins={"odd": 0.2})
    found = plan.needs(asked, RULES, None, None, plan.Assumed())
    assert [one.note for one in found] == ["it asks for slices, and none is at hand"]
    at_hand = replace(SET, slices={"even": frozenset(IDS[::2]), "odd": frozenset(IDS[1::2])})
    found = plan.needs(asked, RULES, at_hand, None, plan.Assumed())
    least = {one.of: one.least for one in found}
    assert least == {"queries of slice even": 36, "queries of slice odd": 17}
    assert [one.limit for one in asked_means(asked.settings, ["even", "odd"])] == [-0.1, -0.2]


def test_gates_that_must_all_pass_ask_for_more_than_one() -> None:
    asked = gate("non_inferior", margin=0.02)
    (alone,) = planned(asked, pilot=True)
    first, *_ = planned(asked, gate("equivalent", "e"), pilot=True)
    assert alone.alone == alone.together == first.alone
    assert first.together is not None
    assert first.together > (first.alone or 0)
    assert first.lacks == first.queries - 50


def test_a_race_is_counted_in_processes_and_queries() -> None:
    asked = gate("latency_ratio", percent="p95", max_ratio=2.0, max_noise=1.5, max_stolen=0.1)
    (found,) = planned(asked)
    assert (found.least, found.processes) == (86, 3)
    assert (found.lacks, found.lacks_processes) == (56, 1)
    (whole,) = plan.plan(of(asked), SET, {})
    assert whole.lacking == ("56 queries raced", "1 processes")
    (nothing,) = plan.plan(of(asked), None, {})
    assert nothing.lacking == ()


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_a_load_test_needs_the_rounds_that_its_interval_does(confidence: float) -> None:
    count = fewest_rounds(confidence)
    assert median_of(range(1, count + 1), confidence=confidence) is not None
    assert median_of(range(1, count), confidence=confidence) is None


def test_every_rule_is_planned_or_says_that_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every shipped policy each gate has a need; none is left out."""
    monkeypatch.setattr(plan, "MOVED", plan.MOVED[:1])  # what an equal candidate costs takes time
    seen = set()
    for path in sorted((ROOT / "policy").glob("*.toml")):
        if "[policy]" not in path.read_text():
            continue
        policy = load_policy(path)
        for one in plan.plan(policy, SET, {}):
            assert {each.gate.name for each in one.needs} == {g.name for g in one.step.gates}
            for each in one.needs:
                seen.add(each.gate.rule)
                assert each.least or each.note, (path, each.gate.name)
                assert "cannot be planned" not in each.note, (path, each.gate.name)
    assert len(seen) > 8


def test_an_equal_candidate_takes_what_its_moves_cost() -> None:
    """The numbers pass equal candidates with the policy's power, by the bound itself."""
    found = dict(only(gate("non_inferior", margin=0.05)).equal)
    assert list(found) == list(plan.MOVED)
    rng = np.random.default_rng(1)
    for moved, queries in found.items():
        ways = rng.choice([0.5, -0.5, 0.0], (queries, 1_000), p=[moved / 2, moved / 2, 1 - moved])
        level, span = RULES.level / 2, ValueRange(-1.0, 1.0)
        passed = chance_above(ways, -0.05, span=span, clusters=None) < level
        assert passed.mean() == pytest.approx(RULES.power, abs=0.05), moved
    assert not only(gate("superior", margin=0.05)).equal
    (both,) = planned(gate("equivalent", margin=0.05))
    assert dict(both.equal)[0.3] > found[0.3]


def test_what_a_small_set_can_decide_is_said() -> None:
    """Fewer than a measured gain of a tenth are too few to pass, though most queries gain."""
    asked = gate("superior", margin=0.0)
    given = evidence(30, spread=0.1)
    for gain, verdict in ((-0.02, "inconclusive"), (0.02, "pass")):
        (found,) = plan.plan(of(asked), SET, {"s": given}, plan.Assumed(gain=0.1))[0].needs
        forecast = found.forecast
        assert isinstance(forecast, plan.MeanForecast)
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


NOW = day(20)


def days(first: int, last: int) -> tuple[standing.Day, ...]:
    arms = {"control": "mail-fts5", "candidate": "mail-tantivy"}
    return tuple(
        standing.Day(day=date(2026, 3, number), pairs=1, source="streams", **arms)
        for number in range(first, last + 1)
    )


BEGUN = standing.MigrationState(POLICY.name, day(1), "fts5")
SHADOW = standing.StepInForce("shadow", "shadow", day(2), decision(2), drilled_at=day(2))
UNDRILLED = replace(SHADOW, drilled_at=None)
READY = replace(BEGUN, taken=(SHADOW,), days=days(2, 20), decisions=(decision(2), decision(20)))
TANTIVY = standing.StepInForce("tantivy", "tantivy", day(18), decision(18), drilled_at=day(18))
SERVING = replace(READY, taken=(SHADOW, TANTIVY))
PROMOTED = held(decision(20))


def stood(
    state: standing.MigrationState, current: standing.CurrentDecision, policy: Policy = POLICY
) -> tuple[standing.MigrationDay, list[standing.Action]]:
    """Return where a migration stands, and what it asks for."""
    stands = standing.standing(state, policy, current, now=NOW)
    return stands, [ask.action for ask in stands.asks]


def said_otherwise(**changed: object) -> standing.CurrentDecision:
    """Decide, and say something else of the step tantivy."""
    made = decision(20)
    steps = (s.model_copy(update=changed) if s.step == "tantivy" else s for s in made.steps)
    return held(made.model_copy(update={"steps": tuple(steps)}))


def test_a_whole_and_fresh_promote_of_the_next_step_lets_it_be_taken() -> None:
    stands, asked = stood(READY, PROMOTED)
    assert (stands.hindrances, asked) == ((), [standing.Action.ADVANCE])


@pytest.mark.parametrize(
    ("changed", "current", "says"),
    [
        ({}, held(None), "nothing was decided yet"),
        ({}, held(decision(20), "a byte is gone"), "not believed: a byte is gone"),
        ({}, replace(PROMOTED, policy_sha256="f" * 64), "decide again"),
        ({}, held(decision(5)), "15 days old"),
        ({}, held(decision(20, raced=5)), "15 days old"),
        ({}, held(decision(21)), "from the future"),
        ({}, held(decision(20, tantivy="fail")), f"HOLD: {GATE} fails"),
        ({}, held(decision(20, tantivy="open")), f"HOLD: {GATE} is open"),
        ({}, held(decision(20, shadow="open")), "waits for shadow"),
        ({}, held(decision(20, shadow="fail")), "roll back to start first"),
        ({}, said_otherwise(step="other"), "no decision for step tantivy"),
        ({}, said_otherwise(control="mail-like"), "mail-like against mail-tantivy"),
        ({"days": days(2, 14)}, PROMOTED, "13 of the 14 days"),
        ({"days": days(2, 20)[::2]}, PROMOTED, "10 of the 14 days"),
        ({"decisions": (decision(10, tantivy="fail"),)}, PROMOTED, "10 of the 14 days"),
        ({"taken": (UNDRILLED,)}, PROMOTED, "the rollback of shadow was not drilled"),
        ({"turned_back": {"tantivy": day(20, 7)}}, PROMOTED, "before tantivy was taken back"),
    ],
)
def test_each_hindrance_alone_stands_in_the_way(
    changed: dict[str, Any], current: standing.CurrentDecision, says: str
) -> None:
    stands, asked = stood(replace(READY, **changed), current)
    assert any(says in line for line in stands.hindrances), stands.hindrances
    assert standing.Action.ADVANCE not in asked


def test_days_of_other_arms_or_before_the_step_do_not_count() -> None:
    step = POLICY.steps[1]
    other = tuple(one.model_copy(update={"candidate": "mail-hash"}) for one in days(2, 20))
    assert len(replace(READY, days=other).shadow_days(step)) == 0
    twice = replace(READY, days=(*days(1, 5), *days(1, 5)))
    assert sorted(one.day for one in twice.shadow_days(step)) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("today", "noted", "to"),
    [
        (decision(20, tantivy="fail"), (), ["shadow"]),
        (None, (decision(19, tantivy="fail"),), ["shadow"]),
        (decision(20, shadow="fail"), (), [standing.START]),
        (decision(20, shadow="fail", tantivy="fail"), (), [standing.START]),
        (decision(20), (decision(19, tantivy="fail"),), []),
        (decision(20, tantivy="open"), (), []),
        (None, (decision(17, tantivy="fail"),), []),
        (decision(17, tantivy="fail"), (), []),
    ],
)
def test_newer_evidence_against_a_step_in_force_asks_for_its_rollback(
    today: standing.DecisionRecord | None, noted: tuple[Any, ...], to: list[str]
) -> None:
    """Only the newest decision counts, and only if it is newer than the one it was taken by."""
    stands, asked = stood(replace(SERVING, decisions=noted), held(today))
    back = standing.Action.ROLLBACK
    assert [ask.to for ask in stands.asks if ask.action is back] == to
    assert (asked[:1] == [back]) is bool(to)


def test_a_step_taken_against_its_decision_waits_for_a_newer_one() -> None:
    """An override is not undone by what it set aside."""
    against = decision(18, tantivy="fail")
    state = replace(SERVING, taken=(SHADOW, replace(TANTIVY, decision=against)), decisions=())
    assert standing.Action.ROLLBACK not in stood(state, held(against))[1]
    assert standing.Action.ROLLBACK in stood(state, held(decision(19, tantivy="fail")))[1]


def test_the_last_step_has_no_next_and_one_without_a_switch_cannot_be_taken() -> None:
    hybrid = standing.StepInForce("hybrid", "hybrid", day(19), decision(19), drilled_at=day(19))
    state = replace(SERVING, taken=(*SERVING.taken, hybrid))
    bare = replace(POLICY, steps=(*POLICY.steps[:3], replace(POLICY.steps[3], switch=None)))
    assert "names no switch for rerank" in stood(state, PROMOTED, bare)[0].hindrances[0]
    stands, asked = stood(state, PROMOTED, replace(POLICY, steps=POLICY.steps[:3]))
    assert (stands.next, asked[-1]) == (None, standing.Action.DONE)


def test_message_search_sets_the_switch_that_its_service_knows() -> None:
    steps = {step.name: step for step in POLICY.steps}
    assert {step.switch for step in steps.values()} - {None} <= {str(one) for one in KillSwitch}
    assert steps["shadow"].switch == "shadow"
    assert steps["tantivy"].shadow_days == 14
