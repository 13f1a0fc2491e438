"""Where a migration stands, and the keys of its policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from harness.core.errors import BadPolicy, EvidenceError
from harness.core.gate import Outcome
from harness.migrate.standing import (
    START,
    Action,
    Advanced,
    CurrentDecision,
    Day,
    Decided,
    Drilled,
    Observed,
    RolledBack,
    State,
    Taken,
    applied,
    standing,
)
from harness.policy.load import load_policy
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.make.decisions import GATE, POLICY, SETUP, day, decision, evidence
from tests.policy.test_load import GOOD, MAIL

BY = "a test"
NOW = day(20)


def days(first: int, last: int) -> tuple[Day, ...]:
    arms = {"control": "mail-fts5", "candidate": "mail-tantivy"}
    return tuple(
        Day(day=date(2026, 3, number), pairs=1, source="streams", **arms)
        for number in range(first, last + 1)
    )


BEGUN = State(POLICY.name, day(1), "fts5")
SHADOW = Taken("shadow", "shadow", day(2), decision(2), drilled_at=day(2))
READY = replace(BEGUN, taken=(SHADOW,), days=days(2, 20), decisions=(decision(2), decision(20)))
TANTIVY = Taken("tantivy", "tantivy", day(18), decision(18), drilled_at=day(18))
SERVING = replace(READY, taken=(SHADOW, TANTIVY))


def asked(state: State, current_decision: CurrentDecision) -> list[Action]:
    return [ask.action for ask in standing(state, POLICY, current_decision, now=NOW).asks]


def in_the_way(state: State, current_decision: CurrentDecision) -> tuple[str, ...]:
    return standing(state, POLICY, current_decision, now=NOW).hindrances


def said_otherwise(**changed: object) -> Decided:
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
    assert in_the_way(READY, evidence(decision(20))) == ()
    assert asked(READY, evidence(decision(20))) == [Action.ADVANCE]


@pytest.mark.parametrize(
    ("state", "current_decision", "says"),
    [
        (READY, evidence(None), "nothing was decided yet"),
        (READY, evidence(decision(20), "a byte is gone"), "not believed: a byte is gone"),
        (READY, evidence(None, "torn"), "not believed: torn"),
        (READY, replace(evidence(decision(20)), policy_sha256="f" * 64), "decide again"),
        (READY, evidence(decision(5)), "15 days old"),
        (READY, evidence(decision(20, raced=5)), "15 days old"),
        (READY, evidence(decision(20, replayed=5)), "15 days old"),
        (READY, evidence(decision(21)), "from the future"),
        (READY, evidence(decision(21, replayed=20)), "from the future"),
        (READY, evidence(decision(20, tantivy="fail")), f"HOLD: {GATE} fails"),
        (READY, evidence(decision(20, tantivy="open")), f"HOLD: {GATE} is open"),
        (READY, evidence(decision(20, shadow="open")), "waits for shadow"),
        (READY, evidence(said_otherwise(step="other")), "does not speak of tantivy"),
        (READY, evidence(said_otherwise(control="mail-like")), "mail-like against mail-tantivy"),
        (READY, evidence(said_otherwise(candidate="mail-hash")), "mail-fts5 against mail-hash"),
        (replace(READY, days=days(2, 14)), evidence(decision(20)), "13 of the 14 days"),
        (replace(READY, days=days(2, 20)[::2]), evidence(decision(20)), "10 of the 14 days"),
        (replace(READY, days=()), evidence(decision(20)), "0 of the 14 days"),
        (
            replace(READY, taken=(replace(SHADOW, drilled_at=None),)),
            evidence(decision(20)),
            "the rollback of shadow was not drilled",
        ),
        (
            replace(READY, turned_back={"tantivy": day(20, 7)}),
            evidence(decision(20)),
            "before tantivy was taken back",
        ),
        (replace(READY, turned_back={"tantivy": day(10)}), evidence(decision(20)), "10 of the 14"),
        (
            replace(READY, decisions=(decision(10, tantivy="fail"),)),
            evidence(decision(20)),
            "10 of the 14 days",
        ),
        (READY, evidence(decision(20, shadow="fail")), "roll back to start first"),
    ],
)
def test_each_hindrance_alone_stands_in_the_way(
    state: State, current_decision: CurrentDecision, says: str
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


def test_a_control_that_changed_is_refused_unless_the_step_before_passes_with_it() -> None:
    """The decision for hybrid is against another Tantivy than the one that was accepted."""
    changed = {
        "steps": tuple(
            one.model_copy(update={"control_setup": SETUP["mail-hash"]})
            if one.step == "hybrid"
            else one
            for one in decision(20).steps
        )
    }
    newer = decision(20).model_copy(update=changed)
    assert in_the_way(SERVING, evidence(newer)) == ()
    without = newer.model_copy(update={"steps": newer.steps[2:]})
    (line,) = in_the_way(SERVING, evidence(without))
    assert "mail-tantivy is another engine, version or setting than when tantivy was taken" in line
    assert in_the_way(SERVING, evidence(decision(20))) == ()


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
    today: Decided | None, noted: tuple[Decided, ...], to: str | None
) -> None:
    """Only the newest decision counts, and only if it is newer than the one it was taken by."""
    state = replace(SERVING, decisions=noted)
    asks = standing(state, POLICY, evidence(today), now=NOW).asks
    back = [ask.to for ask in asks if ask.action is Action.ROLLBACK]
    assert back == ([] if to is None else [to])
    if to is not None:
        assert asks[0].action is Action.ROLLBACK


def test_a_step_taken_against_its_decision_waits_for_a_newer_one() -> None:
    """An override is not undone by what it set aside."""
    against = decision(18, tantivy="fail")
    state = replace(SERVING, taken=(SHADOW, replace(TANTIVY, decision=against)), decisions=())
    assert Action.ROLLBACK not in asked(state, evidence(against))
    assert Action.ROLLBACK in asked(state, evidence(decision(19, tantivy="fail")))


def test_a_decision_that_is_not_believed_moves_nothing_back() -> None:
    found = evidence(decision(20, tantivy="fail"), "a byte is gone")
    assert Action.ROLLBACK not in asked(SERVING, found)


def test_old_evidence_of_the_step_in_force_asks_to_measure() -> None:
    late = day(20) + timedelta(days=14)
    found = standing(SERVING, POLICY, evidence(None), now=late)
    assert found.asks[0].action is Action.MEASURE
    assert found.evidence_age is not None
    assert found.evidence_age.days == 16
    bare = replace(SERVING, taken=(replace(TANTIVY, decision=None),), decisions=())
    shadowless = replace(POLICY, steps=POLICY.steps[1:])
    found = standing(bare, shadowless, evidence(None), now=NOW)
    assert "no decision speaks of it" in found.asks[0].why
    assert found.evidence_age is None


def test_the_last_step_has_no_next_and_one_without_a_switch_cannot_be_taken() -> None:
    hybrid = Taken("hybrid", "hybrid", day(19), decision(19), drilled_at=day(19))
    state = replace(SERVING, taken=(*SERVING.taken, hybrid))
    bare = replace(POLICY, steps=(*POLICY.steps[:3], replace(POLICY.steps[3], switch=None)))
    found = standing(state, bare, evidence(decision(20)), now=NOW)
    assert "names no switch for rerank" in found.hindrances[0]
    short = replace(POLICY, steps=POLICY.steps[:3])
    found = standing(state, short, evidence(decision(20)), now=NOW)
    assert (found.next, found.asks[-1].action) == (None, Action.DONE)


def test_another_policy_and_steps_that_moved_are_refused() -> None:
    with pytest.raises(EvidenceError, match="follows the policy"):
        standing(READY, replace(POLICY, name="other"), evidence(None), now=NOW)
    turned = replace(POLICY, steps=POLICY.steps[::-1])
    with pytest.raises(EvidenceError, match="bring its steps back"):
        standing(READY, turned, evidence(None), now=NOW)


def test_events_add_up() -> None:
    late = Observed(at=NOW, by=BY, decision=decision(3), days=days(3, 3))
    state = applied(SERVING, late)
    assert [one.decided_at for one in state.decisions] == [
        day(2, 6), day(3, 6), day(20, 6),
    ]  # fmt: skip
    assert len(state.days) == len(SERVING.days) + 1
    over = Advanced(
        at=NOW, by=BY, step="hybrid", switch="hybrid", decision=None, overridden=("x",), reason="r"
    )
    state = applied(state, over)
    assert (state.step, state.switch, state.before) == ("hybrid", "hybrid", "tantivy")
    back = applied(state, RolledBack(at=NOW, by=BY, to="shadow", switch="shadow", reason="r"))
    assert (back.step, back.since) == ("shadow", day(2))
    assert set(back.turned_back) == {"tantivy", "hybrid"}
    assert back.overrides == (over,)
    failed = Drilled(
        at=NOW, by=BY, step="tantivy", old="shadow", new="tantivy", passed=False, said="x",
        questions=1, back_ns=0, forth_ns=0,
    )  # fmt: skip
    assert applied(SERVING, failed).step == "shadow"
    with pytest.raises(EvidenceError, match="a drill of tantivy, where hybrid"):
        applied(state, failed)
    assert decision(20).steps[1].outcome is Outcome.PROMOTE


def written(folder: Path, keys: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(GOOD.replace("taken = false\n", f"taken = false\n{keys}", 1))
    return path


def test_both_are_optional_and_read(tmp_path: Path) -> None:
    first, second = load_policy(written(tmp_path, 'switch = "shadow"\nshadow_days = 14\n')).steps
    assert (first.switch, first.shadow_days) == ("shadow", 14)
    assert (second.switch, second.shadow_days) == (None, 0)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("shadow_days = 0\n", "shadow_days"),
        ("shadow_days = 1.5\n", "shadow_days"),
        ("shadow_days = true\n", "shadow_days"),
        ('switch = ""\n', "switch"),
        ('switch = "fts5\\nX=1"\n', "switch"),
    ],
)
def test_an_impossible_value_is_named_with_its_line(tmp_path: Path, keys: str, says: str) -> None:
    with pytest.raises(BadPolicy, match=says) as told:
        load_policy(written(tmp_path, keys))
    assert told.value.line == 15


def test_message_search_sets_the_switch_that_its_service_knows() -> None:
    steps = {step.name: step for step in load_policy(MAIL).steps}
    assert {step.switch for step in steps.values()} - {None} <= {str(one) for one in KillSwitch}
    assert steps["shadow"].switch == "shadow"
    assert steps["tantivy"].shadow_days == 14
