"""Attempts at a control are counted from what was done: new evidence of any candidate is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.digest import of_json
from harness.core.names import Experiment, Inputs, Kind
from harness.policy.load import load_policy
from harness.policy.looks import looked, looks, told
from harness.policy.model import Policy
from tests.make.toy import GATES, HEAD, RACED, STEP

AT = datetime(2026, 3, 1, tzinfo=UTC)
BASE: Mapping[str, Any] = {
    **{name: of_json(name) for name in ("corpus", "queries", "qrels", "inventory", "code")},
    "runs": {"fts5": of_json("fts5"), "tantivy": of_json("tantivy")},
    "times": of_json("race 1"),
    "policy": of_json("policy"),
    "seeds": {"policy": 5, "race": 5},
}


def inputs(**other: object) -> Inputs:
    return Inputs(**{**BASE, **other})


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    path = tmp_path / "p.toml"
    path.write_text(HEAD + STEP + GATES + RACED)
    return load_policy(path)


def line(policy: Policy, found: Inputs, kind: Kind = "gate", name: str = "") -> Experiment:
    """Log a look at the policy's one step, or a race."""
    steps = () if kind.startswith("race") else (looked(policy, policy.steps[0], found, "hold"),)
    return Experiment(
        number=1, previous="0" * 64, kind=kind, at=AT, policy=name or policy.name,
        inputs=found, steps=steps, decision=None,
    )  # fmt: skip


def count(policy: Policy, log: list[Experiment], found: Inputs) -> tuple[int, int, int]:
    seen = looks(log, policy, policy.steps[0], found)
    return seen.attempts, seen.untimed, seen.timed


def test_the_first_look(policy: Policy) -> None:
    seen = looks([], policy, policy.steps[0], inputs())
    assert (seen.attempts, seen.since, seen.before) == (1, (), ())


def test_the_same_evidence_judged_again_is_no_other_look(policy: Policy) -> None:
    log = [line(policy, inputs()), line(policy, inputs(), "decide")]
    assert count(policy, log, inputs()) == (1, 1, 1)
    assert looks(log, policy, policy.steps[0], inputs(code=of_json("new"))).attempts == 1


@pytest.mark.parametrize(
    ("other", "untimed", "timed", "said"),
    [
        ({"qrels": of_json("x")}, 2, 1, "other judgements"),
        ({"queries": of_json("x")}, 2, 1, "other queries"),
        ({"corpus": of_json("x")}, 2, 1, "other documents"),
        ({"runs": {**BASE["runs"], "tantivy": of_json("x")}}, 2, 1, "other runs"),
        ({"times": of_json("x")}, 1, 2, "another race"),
    ],
)
def test_other_evidence_is_another_look(
    policy: Policy, other: Mapping[str, Any], untimed: int, timed: int, said: str
) -> None:
    log = [line(policy, inputs())]
    assert count(policy, log, inputs(**other)) == (2, untimed, timed)
    seen = looks(log, policy, policy.steps[0], inputs(**other))
    assert seen.since == (said,)
    assert seen.before == (("2026-03-01", "hold"),)


def test_the_run_of_an_arm_that_no_gate_looks_at_is_no_look(policy: Policy) -> None:
    more = {**BASE["runs"], "dense": of_json("dense")}
    assert count(policy, [line(policy, inputs())], inputs(runs=more)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("was", "now", "counted"),
    [("seed = 5", "seed = 6", (1, 1, 1)), ("margin = 0.1", "margin = 0.2", (2, 2, 1))],
)
def test_another_bound_on_the_same_evidence_is_an_attempt_and_another_seed_is_none(
    policy: Policy, tmp_path: Path, was: str, now: str, counted: tuple[int, int, int]
) -> None:
    path = tmp_path / "other.toml"
    path.write_text((HEAD + STEP + GATES + RACED).replace(was, now))
    assert count(load_policy(path), [line(policy, inputs())], inputs()) == counted


def test_looks_add_up_and_a_return_is_no_new_one(policy: Policy) -> None:
    other = inputs(qrels=of_json("x"))
    log = [line(policy, inputs()), line(policy, other)]
    assert count(policy, log, inputs(qrels=of_json("y"))) == (3, 3, 1)
    assert count(policy, log, inputs()) == (2, 2, 1)


def test_races_that_no_gate_judged_count(policy: Policy) -> None:
    races = [line(policy, inputs(times=of_json(at)), "race") for at in ("a", "b")]
    assert count(policy, races, inputs(times=of_json("b"))) == (2, 1, 2)
    seen = looks(races, policy, policy.steps[0], inputs(times=of_json("b")))
    assert seen.unjudged == 1
    only_control = {"fts5": of_json("fts5")}
    strange = line(policy, inputs(times=of_json("c"), runs=only_control), "race")
    assert count(policy, [strange], inputs()) == (1, 1, 1)


def test_a_race_that_was_begun_and_dropped_counts(policy: Policy) -> None:
    now = inputs(times=of_json("b"))
    before, ended = (line(policy, inputs(times=of_json(at)), "race") for at in ("a", "b"))
    begun = line(policy, inputs(times=of_json("a")), "race begun")
    for log, unjudged in (
        ([begun, ended], 0),
        ([ended, begun], 1),
        ([begun, begun, ended], 1),
        ([before, begun, begun, begun, ended], 3),
    ):
        assert looks(log, policy, policy.steps[0], now).unjudged == unjudged
    assert told([begun, begun, ended]) == ("race that was dropped", "race")


def test_a_race_that_was_stopped_and_gone_on_with_is_told_and_is_no_look(policy: Policy) -> None:
    now = inputs(times=of_json("b"))
    begun = line(policy, inputs(times=None), "race begun")
    resumed = line(policy, inputs(times=None), "race resumed")
    ended = line(policy, now, "race")
    seen = looks([begun, resumed, resumed, ended], policy, policy.steps[0], now)
    assert (seen.attempts, seen.unjudged, seen.resumed) == (1, 0, 2)
    assert told([begun, resumed, ended]) == ("race that was stopped and resumed", "race")
    strange = line(policy, inputs(runs={"fts5": of_json("fts5")}), "race resumed")
    assert looks([strange], policy, policy.steps[0], now).resumed == 0


def test_a_policy_without_timed_gates_does_not_count_races(tmp_path: Path) -> None:
    path = tmp_path / "untimed.toml"
    path.write_text(HEAD + STEP + GATES)
    policy = load_policy(path)
    races = [line(policy, inputs(times=of_json(at)), "race") for at in ("a", "b")]
    assert count(policy, races, inputs()) == (1, 1, 0)


@pytest.mark.parametrize("name", ["toy ", "exploring"])
def test_a_look_by_another_name_of_the_policy_counts(policy: Policy, name: str) -> None:
    log = [line(policy, inputs(), name=name)]
    seen = looks(log, policy, policy.steps[0], inputs(qrels=of_json("x")))
    assert seen.attempts == 2
    assert seen.before == (("2026-03-01", f"hold (policy {name!r})"),)


def renamed(policy: Policy, *, name: str = "tantivy", candidate: str = "tantivy") -> Policy:
    return replace(policy, steps=(replace(policy.steps[0], name=name, candidate=candidate),))


def test_a_step_by_another_name_is_the_same_look(policy: Policy) -> None:
    other = renamed(policy, name="again")
    assert count(other, [line(policy, inputs())], inputs(qrels=of_json("x"))) == (2, 2, 1)


def test_an_arm_by_another_name_is_known_by_what_it_showed(policy: Policy) -> None:
    was = inputs(shown={"fts5": of_json("a"), "tantivy": of_json("b")})
    now = inputs(
        runs={"fts5": of_json("fts5"), "second": of_json("second")},
        shown={"fts5": of_json("a"), "second": of_json("b")},
    )
    other = renamed(policy, candidate="second")
    seen = looks([line(policy, was)], other, other.steps[0], now)
    assert seen.attempts == 2
    assert seen.before == (("2026-03-01", "hold (step tantivy, tantivy against fts5)"),)
    races = [line(policy, was.model_copy(update={"times": of_json("z")}), "race")]
    assert looks(races, other, other.steps[0], now).unjudged == 1


def candidates(policy: Policy, names: Sequence[str]) -> Policy:
    (step,) = policy.steps
    steps = tuple(replace(step, name=name, candidate=name) for name in names)
    return replace(policy, steps=steps, chained=False)


def shown(*arms: str) -> Inputs:
    named = {arm: of_json(arm) for arm in ("fts5", *arms)}
    return inputs(runs=named, shown=named)


def test_every_candidate_for_the_place_of_a_control_is_an_attempt(policy: Policy) -> None:
    """One after the other, and side by side in one decision."""
    log = [line(candidates(policy, [arm]), shown(arm)) for arm in ("a", "b", "c")]
    assert count(candidates(policy, ["d"]), log, shown("d")) == (4, 4, 4)
    many = candidates(policy, "abcd")
    assert [looks([], many, step, shown(*"abcd")).attempts for step in many.steps] == [4] * 4


def test_a_candidate_that_was_not_measured_is_no_attempt(policy: Policy) -> None:
    many = candidates(policy, "ab")
    assert looks([], many, many.steps[0], shown("a")).untimed == 1


def test_another_control_has_a_budget_of_its_own(policy: Policy) -> None:
    (step,) = policy.steps
    other = replace(policy, steps=(replace(step, control="dense"),))
    now = inputs(runs={"dense": of_json("dense"), "tantivy": of_json("tantivy")})
    assert count(other, [line(policy, inputs())], now) == (1, 1, 1)


def test_a_control_by_another_name_is_known_by_what_it_showed(policy: Policy) -> None:
    was = shown("tantivy")
    now = was.model_copy(
        update={
            "runs": {"serving": of_json("x"), "tantivy": of_json("new")},
            "shown": {"serving": of_json("fts5"), "tantivy": of_json("new")},
        }
    )
    other = replace(policy, steps=(replace(policy.steps[0], control="serving"),))
    assert count(other, [line(policy, was)], now) == (2, 2, 2)


def test_each_attempt_costs_the_level_of_its_day(policy: Policy) -> None:
    """A higher number of attempts, written later, does not buy back what was spent."""
    log = [line(policy, inputs(qrels=of_json(at))) for at in range(2)]
    finer = replace(policy, rules=replace(policy.rules, confidence=0.99))
    seen = looks(log, finer, finer.steps[0], inputs())
    assert seen.spent == pytest.approx(2 * 0.025 + 0.005)
    again = looks([*log, line(policy, inputs())], finer, finer.steps[0], inputs())
    assert again.spent == pytest.approx(3 * 0.025)


def test_queries_added_are_no_attempt_where_every_gate_holds_at_every_look(
    policy: Policy, tmp_path: Path
) -> None:
    path = tmp_path / "anytime.toml"
    gates = (
        GATES.partition("[[step.gate]]")[0]
        + """[[step.gate]]
name = "Quality"
rule = "non_inferior"
measure = "nDCG@10"
margin = 0.1
looks = "anytime"
"""
    )
    path.write_text(HEAD + STEP + gates)
    anytime = load_policy(path)
    arms = {"fts5": of_json("fts5"), "tantivy": of_json("tantivy")}
    was, more = inputs(manifests=arms), inputs(manifests=arms, queries=of_json("more"))
    other = inputs(manifests={**arms, "tantivy": of_json("built anew")})
    assert count(anytime, [line(anytime, was)], more)[0] == 1
    assert count(anytime, [line(anytime, was)], other)[0] == 2
    assert count(policy, [line(policy, was)], more)[0] == 2


def test_the_lines_before_are_told(policy: Policy) -> None:
    log = [line(policy, inputs(), "race"), *[line(policy, inputs(), name="toy ")] * 2]
    assert told(log) == ("race", "tantivy against fts5 by policy 'toy ', 2x")
