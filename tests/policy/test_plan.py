"""Plans of policies, and migrations by steps."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from harness.core.records import Qrels
from harness.core.scores import Scores
from harness.gates.base.differences import asked_means
from harness.load.rates import fewest_rounds, median_of
from harness.migrate.standing import (
    START,
    Action,
    CurrentDecision,
    Day,
    DecisionRecord,
    MigrationState,
    StepInForce,
    standing,
)
from harness.policy.load import load_policy
from harness.policy.model import Gate, Policy
from harness.policy.plan import (
    MOVED,
    Assumed,
    AtHand,
    IndependentQueries,
    MeanForecast,
    Need,
    Raced,
    needs,
    plan,
)
from harness.stats.bounded import ValueRange, chance_above
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.make.decisions import GATE, POLICY, day, decision
from tests.make.decisions import evidence as evidence_migration
from tests.policy.test_load import GOOD, MAIL
from tests.policy.tried import RULES, evidence, gate, step
from tests.source import ROOT

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


def planned(*gates: Gate, pilot: bool = False, **assume: float) -> tuple[Need, ...]:
    pilots = {"s": evidence()} if pilot else {}
    (found,) = plan(of(*gates), SET, pilots, Assumed(**assume))
    return found.needs


def only(asked: Gate, **assume: float) -> Need:
    (found,) = needs(asked, RULES, SET, None, Assumed(**assume))
    return found


@pytest.mark.slow
def test_a_query_set_is_counted_by_what_its_queries_are_good_for() -> None:
    assert SET.count(SET.queries) == IndependentQueries(60, 59)
    assert SET.count(SET.answerable) == IndependentQueries(50, 49)
    assert SET.count(SET.answerable, "short") == IndependentQueries(20, 19)
    assert SET.count(SET.answerable, "unknown") == IndependentQueries(0, 0)
    assert SET.count(SET.negative) == IndependentQueries(5, 5)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_gate_that_holds_at_every_look_asks_for_more() -> None:
    found = only(gate("non_inferior", margin=0.05, looks="anytime"))
    assert found.least > only(gate("non_inferior", margin=0.05)).least
    assert "queries are added" in found.note


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_gates_that_must_all_pass_ask_for_more_than_one() -> None:
    asked = gate("non_inferior", margin=0.02)
    (alone,) = planned(asked, pilot=True)
    first, *_ = planned(asked, gate("equivalent", "e"), pilot=True)
    assert alone.alone == alone.together == first.alone
    assert first.together is not None
    assert first.together > (first.alone or 0)
    assert first.lacks == first.queries - 50


@pytest.mark.slow
def test_a_race_is_counted_in_processes_and_queries() -> None:
    asked = gate("latency_ratio", percent="p95", max_ratio=2.0, max_noise=1.5, max_stolen=0.1)
    (found,) = planned(asked)
    assert (found.least, found.processes) == (86, 3)
    assert (found.lacks, found.lacks_processes) == (56, 1)
    (whole,) = plan(of(asked), SET, {})
    assert whole.lacking == ("56 queries raced", "1 processes")
    (nothing,) = plan(of(asked), None, {})
    assert nothing.lacking == ()


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_a_load_test_needs_the_rounds_that_its_interval_does(confidence: float) -> None:
    count = fewest_rounds(confidence)
    assert median_of(range(1, count + 1), confidence=confidence) is not None
    assert median_of(range(1, count), confidence=confidence) is None


@pytest.mark.slow
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
                seen.add(each.gate.rule)
                assert each.least or each.note, (path, each.gate.name)
                assert "cannot be planned" not in each.note, (path, each.gate.name)
    assert len(seen) > 8


@pytest.mark.slow
def test_an_equal_candidate_takes_what_its_moves_cost() -> None:
    """The numbers pass equal candidates with the policy's power, by the bound itself."""
    found = dict(only(gate("non_inferior", margin=0.05)).equal)
    assert list(found) == list(MOVED)
    rng = np.random.default_rng(1)
    for moved, queries in found.items():
        ways = rng.choice([0.5, -0.5, 0.0], (queries, 1_000), p=[moved / 2, moved / 2, 1 - moved])
        level, span = RULES.level / 2, ValueRange(-1.0, 1.0)
        passed = chance_above(ways, -0.05, span=span, clusters=None) < level
        assert passed.mean() == pytest.approx(RULES.power, abs=0.05), moved
    assert not only(gate("superior", margin=0.05)).equal
    (both,) = planned(gate("equivalent", margin=0.05))
    assert dict(both.equal)[0.3] > found[0.3]


@pytest.mark.slow
def test_what_a_small_set_can_decide_is_said() -> None:
    """Fewer than a measured gain of a tenth are too few to pass, though most queries gain."""
    asked = gate("superior", margin=0.0)
    given = evidence(30, spread=0.1)
    for gain, verdict in ((-0.02, "inconclusive"), (0.02, "pass")):
        (found,) = plan(of(asked), SET, {"s": given}, Assumed(gain=0.1))[0].needs
        forecast = found.forecast
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


BY = "a test"
NOW = day(20)


def days(first: int, last: int) -> tuple[Day, ...]:
    arms = {"control": "mail-fts5", "candidate": "mail-tantivy"}
    return tuple(
        Day(day=date(2026, 3, number), pairs=1, source="streams", **arms)
        for number in range(first, last + 1)
    )


BEGUN = MigrationState(POLICY.name, day(1), "fts5")
SHADOW = StepInForce("shadow", "shadow", day(2), decision(2), drilled_at=day(2))
READY = replace(BEGUN, taken=(SHADOW,), days=days(2, 20), decisions=(decision(2), decision(20)))
TANTIVY = StepInForce("tantivy", "tantivy", day(18), decision(18), drilled_at=day(18))
SERVING = replace(READY, taken=(SHADOW, TANTIVY))


def asked(state: MigrationState, current_decision: CurrentDecision) -> list[Action]:
    return [ask.action for ask in standing(state, POLICY, current_decision, now=NOW).asks]


def in_the_way(state: MigrationState, current_decision: CurrentDecision) -> tuple[str, ...]:
    return standing(state, POLICY, current_decision, now=NOW).hindrances


def said_otherwise(**changed: object) -> DecisionRecord:
    """Decide, and say something else of the step tantivy."""
    made = decision(20)
    return made.model_copy(
        update={
            "steps": tuple(
                one.model_copy(update=changed) if one.step == "tantivy" else one
                for one in made.steps
            )
        }
    )


def test_a_whole_and_fresh_promote_of_the_next_step_lets_it_be_taken() -> None:
    assert in_the_way(READY, evidence_migration(decision(20))) == ()
    assert asked(READY, evidence_migration(decision(20))) == [Action.ADVANCE]


@pytest.mark.parametrize(
    ("state", "current_decision", "says"),
    [
        (READY, evidence_migration(None), "nothing was decided yet"),
        (READY, evidence_migration(decision(20), "a byte is gone"), "not believed: a byte is gone"),
        (READY, replace(evidence_migration(decision(20)), policy_sha256="f" * 64), "decide again"),
        (READY, evidence_migration(decision(5)), "15 days old"),
        (READY, evidence_migration(decision(20, raced=5)), "15 days old"),
        (READY, evidence_migration(decision(21)), "from the future"),
        (READY, evidence_migration(decision(20, tantivy="fail")), f"HOLD: {GATE} fails"),
        (READY, evidence_migration(decision(20, tantivy="open")), f"HOLD: {GATE} is open"),
        (READY, evidence_migration(decision(20, shadow="open")), "waits for shadow"),
        (READY, evidence_migration(said_otherwise(step="other")), "no decision for step tantivy"),
        (
            READY,
            evidence_migration(said_otherwise(control="mail-like")),
            "mail-like against mail-tantivy",
        ),
        (replace(READY, days=days(2, 14)), evidence_migration(decision(20)), "13 of the 14 days"),
        (
            replace(READY, days=days(2, 20)[::2]),
            evidence_migration(decision(20)),
            "10 of the 14 days",
        ),
        (
            replace(READY, taken=(replace(SHADOW, drilled_at=None),)),
            evidence_migration(decision(20)),
            "the rollback of shadow was not drilled",
        ),
        (
            replace(READY, turned_back={"tantivy": day(20, 7)}),
            evidence_migration(decision(20)),
            "before tantivy was taken back",
        ),
        (
            replace(READY, decisions=(decision(10, tantivy="fail"),)),
            evidence_migration(decision(20)),
            "10 of the 14 days",
        ),
        (READY, evidence_migration(decision(20, shadow="fail")), "roll back to start first"),
    ],
)
def test_each_hindrance_alone_stands_in_the_way(
    state: MigrationState, current_decision: CurrentDecision, says: str
) -> None:
    stands = in_the_way(state, current_decision)
    assert any(says in line for line in stands), stands
    assert Action.ADVANCE not in asked(state, current_decision)


def test_days_of_other_arms_or_before_the_step_do_not_count() -> None:
    step = POLICY.steps[1]
    other = tuple(one.model_copy(update={"candidate": "mail-hash"}) for one in days(2, 20))
    assert len(replace(READY, days=other).shadow_days(step)) == 0
    twice = replace(READY, days=(*days(1, 5), *days(1, 5)))
    assert sorted(one.day for one in twice.shadow_days(step)) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("today", "noted", "to"),
    [
        (decision(20, tantivy="fail"), (), "shadow"),
        (None, (decision(19, tantivy="fail"),), "shadow"),
        (decision(20, shadow="fail"), (), START),
        (decision(20, shadow="fail", tantivy="fail"), (), START),
        (decision(20), (decision(19, tantivy="fail"),), None),
        (decision(20, tantivy="open"), (), None),
        (None, (decision(17, tantivy="fail"),), None),
        (decision(17, tantivy="fail"), (), None),
    ],
)
def test_newer_evidence_against_a_step_in_force_asks_for_its_rollback(
    today: DecisionRecord | None, noted: tuple[DecisionRecord, ...], to: str | None
) -> None:
    """Only the newest decision counts, and only if it is newer than the one it was taken by."""
    state = replace(SERVING, decisions=noted)
    asks = standing(state, POLICY, evidence_migration(today), now=NOW).asks
    back = [ask.to for ask in asks if ask.action is Action.ROLLBACK]
    assert back == ([] if to is None else [to])
    if to is not None:
        assert asks[0].action is Action.ROLLBACK


def test_a_step_taken_against_its_decision_waits_for_a_newer_one() -> None:
    """An override is not undone by what it set aside."""
    against = decision(18, tantivy="fail")
    state = replace(SERVING, taken=(SHADOW, replace(TANTIVY, decision=against)), decisions=())
    assert Action.ROLLBACK not in asked(state, evidence_migration(against))
    assert Action.ROLLBACK in asked(state, evidence_migration(decision(19, tantivy="fail")))


def test_the_last_step_has_no_next_and_one_without_a_switch_cannot_be_taken() -> None:
    hybrid = StepInForce("hybrid", "hybrid", day(19), decision(19), drilled_at=day(19))
    state = replace(SERVING, taken=(*SERVING.taken, hybrid))
    bare = replace(POLICY, steps=(*POLICY.steps[:3], replace(POLICY.steps[3], switch=None)))
    found = standing(state, bare, evidence_migration(decision(20)), now=NOW)
    assert "names no switch for rerank" in found.hindrances[0]
    short = replace(POLICY, steps=POLICY.steps[:3])
    found = standing(state, short, evidence_migration(decision(20)), now=NOW)
    assert (found.next, found.asks[-1].action) == (None, Action.DONE)


def written(folder: Path, keys: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(GOOD.replace("taken = false\n", f"taken = false\n{keys}", 1))
    return path


def test_message_search_sets_the_switch_that_its_service_knows() -> None:
    steps = {step.name: step for step in load_policy(MAIL).steps}
    assert {step.switch for step in steps.values()} - {None} <= {str(one) for one in KillSwitch}
    assert steps["shadow"].switch == "shadow"
    assert steps["tantivy"].shadow_days == 14
