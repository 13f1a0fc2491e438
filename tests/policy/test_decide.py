"""Decisions of all steps: order, age, completeness and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import EvidenceError, MismatchedQueries, UnknownName
from harness.core.evidence import Evidence
from harness.core.gate import Outcome, StepDecision, Verdict
from harness.core.run import Run
from harness.policy.age import check_age
from harness.policy.decision import decide, exit_code, worst
from harness.policy.load import load_policy
from harness.policy.model import Policy
from tests.make import gate_inputs

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
HEAD = """\
[policy]
name = "toy"
version = 1
seed = 3
confidence = 0.95
resamples = 1000
power = 0.8
evidence_days = 7
attempts = 1
largest_cluster = 0.001

[policy.premises]
drawn = "made so"
needs = "made so"
judges = "made so"
starts = "made so"
slowest = "made so"
"""


def policy(folder: Path, taken: Sequence[bool], *, margin: float = 0.02) -> Policy:
    """One step for each of ``taken``, all of old against new."""
    baseline = moved(GOOD).control.manifest.fingerprint
    steps = [
        f"""
[[step]]
name = "step{at}"
control = "old"
candidate = "new"
taken = {str(one).lower()}
baseline = "{baseline}"
[[step.gate]]
name = "Quality"
rule = "non_inferior"
measure = "nDCG@10"
margin = {margin}
min_queries = 20
[[step.gate]]
name = "Who answers"
rule = "identity"
"""
        for at, one in enumerate(taken)
    ]
    path = folder / "policy.toml"
    path.write_text(HEAD + "".join(steps), encoding="utf-8")
    return load_policy(path)


def moved(by: float, spread: float = 0.02, **changes: Any) -> Evidence:  # noqa: ANN401  fields of Evidence
    control = gate_inputs.levels(300)
    return gate_inputs.scored(control, gate_inputs.shifted(control, by, spread), **changes)


GOOD, BAD, OPEN = 0.0, -0.2, -0.02


def decided(folder: Path, steps: list[tuple[bool, float]]) -> tuple[StepDecision, ...]:
    """Decide steps given as taken or not, and the candidate's mean difference."""
    found = policy(folder, [taken for taken, _ in steps])
    evidence = {f"step{at}": moved(by) for at, (_, by) in enumerate(steps)}
    return decide(found, evidence, now=NOW)


def outcomes(decisions: tuple[StepDecision, ...]) -> list[Outcome]:
    return [decision.outcome for decision in decisions]


def test_all_gates_pass(tmp_path: Path) -> None:
    step_decisions = decided(tmp_path, [(False, GOOD), (False, GOOD)])
    assert outcomes(step_decisions) == [Outcome.PROMOTE, Outcome.PROMOTE]
    assert exit_code(step_decisions) == 0


def test_a_fail_holds_and_what_follows_waits(tmp_path: Path) -> None:
    step_decisions = decided(tmp_path, [(False, BAD), (False, GOOD), (False, GOOD)])
    assert outcomes(step_decisions) == [Outcome.HOLD] * 3
    assert [decision.blocked_by for decision in step_decisions] == ["", "step0", "step0"]
    assert step_decisions[1].verdict is Verdict.PASS
    assert exit_code(step_decisions) == 1


def test_a_taken_step_that_fails_rolls_back_and_holds_what_follows(tmp_path: Path) -> None:
    step_decisions = decided(tmp_path, [(True, BAD), (False, GOOD)])
    assert outcomes(step_decisions) == [Outcome.ROLLBACK, Outcome.HOLD]
    assert step_decisions[1].blocked_by == "step0"
    assert exit_code(step_decisions) == 1


def test_a_taken_step_lets_the_next_one_go_on(tmp_path: Path) -> None:
    step_decisions = decided(tmp_path, [(True, OPEN), (False, GOOD)])
    assert outcomes(step_decisions) == [Outcome.HOLD, Outcome.PROMOTE]
    assert step_decisions[1].blocked_by == ""
    assert exit_code(step_decisions) == 3


def test_a_control_that_is_not_the_baseline_is_refused(tmp_path: Path) -> None:
    given = policy(tmp_path, [False])
    other = replace(given, steps=(replace(given.steps[0], baseline="0" * 12),))
    with pytest.raises(EvidenceError, match="which is not the baseline 000000000000 of the policy"):
        decide(other, {"step0": moved(GOOD)}, now=NOW)


def test_a_baseline_is_compared_in_all_of_its_digits(tmp_path: Path) -> None:
    given = policy(tmp_path, [False])
    (step,) = given.steps
    assert step.baseline
    near = step.baseline[:11] + ("0" if step.baseline[11] != "0" else "1")
    other = replace(given, steps=(replace(step, baseline=near),))
    with pytest.raises(EvidenceError, match=near):
        decide(other, {"step0": moved(GOOD)}, now=NOW)


@pytest.mark.parametrize(
    ("codes", "found"), [([0, 1, 3], 1), ([0, 3], 3), ([3, 1], 1), ([0, 0], 0), ([], 0)]
)
def test_the_worst_of_several_data_sets_decides(codes: list[int], found: int) -> None:
    assert worst(codes) == found


def test_what_follows_a_taken_step_is_judged_against_what_that_accepted(tmp_path: Path) -> None:
    first, second = policy(tmp_path, [True, False]).steps
    given = policy(tmp_path, [True, False])
    later = replace(second, control="new", candidate="old", baseline=None)
    one, two = moved(GOOD), moved(GOOD)
    turned = replace(two, control=one.candidate, candidate=one.control)
    chained = replace(given, steps=(first, later))
    evidence = {"step0": one, "step1": turned}
    assert len(decide(chained, evidence, now=NOW)) == 2
    anew = replace(one.candidate, manifest=replace(one.candidate.manifest, documents=7))
    with pytest.raises(EvidenceError, match=r"new \w+, but step step0 accepted"):
        decide(chained, {**evidence, "step1": replace(turned, control=anew)}, now=NOW)
    aside = replace(given, steps=(first, replace(second, candidate="newer", baseline=None)))
    with pytest.raises(EvidenceError, match="and new serves; make new its control"):
        decide(aside, {"step0": one}, now=NOW)


def test_steps_of_a_policy_that_is_not_chained_wait_for_nobody(tmp_path: Path) -> None:
    chained = policy(tmp_path, [False, False])
    evidence = {"step0": moved(BAD), "step1": moved(GOOD)}
    found = decide(replace(chained, chained=False), evidence, now=NOW)
    assert outcomes(found) == [Outcome.HOLD, Outcome.PROMOTE]
    assert chained.chained


def test_inconclusive_holds_and_says_what_would_settle_it(tmp_path: Path) -> None:
    step_decisions = decided(tmp_path, [(False, OPEN)])
    assert outcomes(step_decisions) == [Outcome.HOLD]
    assert step_decisions[0].verdict is Verdict.INCONCLUSIVE
    assert step_decisions[0].blocking[0].remedy
    assert exit_code(step_decisions) == 3


def test_a_step_without_evidence_is_left_open_in_every_gate(tmp_path: Path) -> None:
    found = decide(policy(tmp_path, [False, False]), {"step1": moved(GOOD)}, now=NOW)
    assert [finding.verdict for finding in found[0].findings] == [Verdict.INCONCLUSIVE] * 2
    assert "evidence of new against old is missing" in found[0].findings[0].reason
    assert outcomes(found) == [Outcome.HOLD, Outcome.HOLD]
    assert exit_code(found) == 3


def test_no_decision_is_no_promotion() -> None:
    assert exit_code(()) == 3


def test_evidence_for_no_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no step named 'stepp0'; there is step0"):
        decide(policy(tmp_path, [False]), {"stepp0": moved(GOOD)}, now=NOW)


@pytest.mark.parametrize("which", ["control", "candidate"])
def test_evidence_about_other_arms_is_refused(tmp_path: Path, which: str) -> None:
    sound = moved(GOOD)
    other = replace(sound.control if which == "control" else sound.candidate, arm="third")
    wrong = replace(sound, control=other) if which == "control" else replace(sound, candidate=other)
    with pytest.raises(EvidenceError, match="given third"):
        decide(policy(tmp_path, [False]), {"step0": wrong}, now=NOW)


def test_a_run_of_another_arm_under_the_right_name_is_refused(tmp_path: Path) -> None:
    sound = moved(GOOD)
    wrong = replace(sound, candidate=replace(sound.candidate, run=sound.control.run))
    with pytest.raises(EvidenceError, match="a run of old"):
        decide(policy(tmp_path, [False]), {"step0": wrong}, now=NOW)


def test_arms_that_were_asked_different_queries_are_refused(tmp_path: Path) -> None:
    sound = moved(GOOD)
    fewer = replace(sound.candidate, run=gate_inputs.run("new", gate_inputs.ids(99)))
    one_more = replace(sound.candidate, run=gate_inputs.run("new", gate_inputs.ids(101)))
    for other in (fewer, one_more):
        with pytest.raises(MismatchedQueries, match="queries"):
            decide(policy(tmp_path, [False]), {"step0": replace(sound, candidate=other)}, now=NOW)


def test_stale_times_are_refused(tmp_path: Path) -> None:
    fresh = moved(GOOD, race=gate_inputs.race(1.0, raced_at="2026-10-27T12:00:00+00:00"))
    stale = moved(GOOD, race=gate_inputs.race(1.0, raced_at="2026-10-25T12:00:00+00:00"))
    found = decide(policy(tmp_path, [False]), {"step0": fresh}, now=NOW)
    assert outcomes(found) == [Outcome.PROMOTE]
    with pytest.raises(EvidenceError, match="8 days old"):
        decide(policy(tmp_path, [False]), {"step0": stale}, now=NOW)


@pytest.mark.parametrize(
    ("made_at", "said"),
    [
        ("2026-11-02T12:00:01+00:00", "from the future"),
        ("2026-10-26T11:59:59+00:00", "measure again"),
        ("2026-11-01T12:00:00", "does not name its zone"),
        ("yesterday", "is not a time"),
    ],
)
def test_age_is_checked_to_the_second(made_at: str, said: str) -> None:
    with pytest.raises(EvidenceError, match=said):
        check_age(made_at, now=NOW, evidence_days=7)


@pytest.mark.parametrize(
    "made_at", ["2026-11-02T12:00:00+00:00", "2026-10-26T12:00:00Z", "2026-11-02T13:30:00+02:00"]
)
def test_fresh_evidence_is_taken(made_at: str) -> None:
    check_age(made_at, now=NOW, evidence_days=7)


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [(0.021, Verdict.INCONCLUSIVE), (0.04, Verdict.PASS), (0.005, Verdict.FAIL)],
)
def test_the_bound_is_the_one_that_the_policy_writes(
    tmp_path: Path, margin: float, verdict: Verdict
) -> None:
    found = decide(policy(tmp_path, [False], margin=margin), {"step0": moved(-0.02)}, now=NOW)
    finding = found[0].findings[0]
    assert finding.verdict is verdict
    assert finding.limit == -margin
    assert f"{margin:g}" in finding.bound


def test_the_same_evidence_gives_the_same_decision(tmp_path: Path) -> None:
    first = decided(tmp_path, [(False, OPEN), (False, GOOD)])
    assert first == decided(tmp_path, [(False, OPEN), (False, GOOD)])


def twins() -> Evidence:
    """Let the candidate be the control, under another name."""
    evidence = moved(GOOD)
    same = replace(evidence.control.manifest)
    rows = (row._replace(served_by=same.fingerprint) for row in evidence.candidate.run.rows())
    candidate = replace(evidence.candidate, manifest=same, run=Run.of("new", rows))
    return replace(evidence, candidate=candidate)


def test_one_engine_in_both_arms_is_refused_unless_declared(tmp_path: Path) -> None:
    found = policy(tmp_path, [False])
    with pytest.raises(EvidenceError, match="old and new are the same engine"):
        decide(found, {"step0": twins()}, now=NOW)
    declared = replace(found, steps=(replace(found.steps[0], same_engine="an A/A test"),))
    assert outcomes(decide(declared, {"step0": twins()}, now=NOW)) == [Outcome.PROMOTE]


def test_a_further_arm_that_is_the_candidate_is_refused(tmp_path: Path) -> None:
    found = policy(tmp_path, [False])
    gate = found.steps[0].gates[1]
    reads = replace(gate, settings=gate.settings.model_copy(update={"also": ("hybrid",)}))
    found = replace(found, steps=(replace(found.steps[0], gates=(reads,)),))
    evidence = moved(GOOD)
    disguised = replace(evidence.candidate, arm="hybrid")
    with pytest.raises(EvidenceError, match="new and hybrid are the same engine"):
        decide(found, {"step0": replace(evidence, others={"hybrid": disguised})}, now=NOW)


@pytest.mark.parametrize(("engine", "refused"), [("another", True), ("old", False)])
def test_two_engines_have_two_indexes_and_two_settings_may_share_one(
    tmp_path: Path, engine: str, *, refused: bool
) -> None:
    evidence = moved(GOOD)
    manifest = replace(evidence.candidate.manifest, engine=engine)
    rows = (row._replace(served_by=manifest.fingerprint) for row in evidence.candidate.run.rows())
    shared = replace(
        evidence.candidate,
        manifest=manifest,
        run=Run.of("new", rows),
        index_sha256=evidence.control.index_sha256,
    )
    said = pytest.raises(EvidenceError, match="have one index, byte for byte")
    with said if refused else nullcontext():
        decide(policy(tmp_path, [False]), {"step0": replace(evidence, candidate=shared)}, now=NOW)
