"""Premises, reservations and pins."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import BadFile
from harness.core.evidence import Evidence, Race, Sample, Samples
from harness.core.gate import Cause, Finding, Outcome
from harness.core.records import Qrels, Query
from harness.corpus.prepared import Inventory
from harness.policy.decision import decide, not_as_pinned, open_premises, over_budget
from harness.policy.load import load_policy
from harness.policy.looks import Looks
from harness.policy.model import UNDECLARED, Policy
from harness.policy.pins import path_of, pin, read
from tests.make import gate_inputs
from tests.make.held import held_to
from tests.make.toy import GATES, HEAD, RACED, STEP
from tests.policy import test_decide
from tests.policy.test_decide import NOW

STARTS = 7
"""Processes of which all are alike: enough for a median, at the level of the policy."""


def policy(folder: Path, head: str = HEAD, gates: str = GATES) -> Policy:
    path = folder / "p.toml"
    path.write_text(head + STEP + gates)
    return load_policy(path)


def undeclared(*keys: str) -> str:
    """Return the head of a policy without these keys."""
    lines = HEAD.splitlines(keepends=True)
    return "".join(line for line in lines if line.split(" = ")[0] not in keys)


def given(**changes: Any) -> Evidence:  # noqa: ANN401  fields of Evidence
    return replace(gate_inputs.evidence(300), **changes)


def premise(found: Policy, evidence: Evidence) -> Finding | None:
    said = open_premises(found, found.steps[0], evidence)
    return said[0] if said else None


def test_an_open_premise_holds_a_step_whose_gates_all_pass(tmp_path: Path) -> None:
    known = test_decide.policy(tmp_path, [False])
    (step,) = decide(known, {"step0": test_decide.moved(0.0)}, now=test_decide.NOW)
    assert step.outcome is Outcome.PROMOTE
    (step,) = decide(
        replace(known, premises=UNDECLARED), {"step0": test_decide.moved(0.0)}, now=test_decide.NOW
    )
    assert step.outcome is Outcome.HOLD
    assert [one.cause for one in step.blocking] == [Cause.PREMISE]


def test_declared_premises_hold_nothing_and_undeclared_ones_are_named(tmp_path: Path) -> None:
    assert premise(policy(tmp_path), given()) is None
    keys = ("drawn", "needs", "largest_cluster")
    for key in keys:
        found = premise(policy(tmp_path, undeclared(key)), given())
        assert found is not None
        assert found.reason.startswith(f"{key} (")
        assert f"a reason in the policy for {key}" in found.remedy
    found = premise(policy(tmp_path, undeclared(*keys)), given())
    assert found is not None
    assert all(f"{key} (" in found.reason for key in keys)


def test_a_gate_on_identity_alone_takes_none_for_granted(tmp_path: Path) -> None:
    alone = GATES.split("\n\n")[0]
    assert premise(policy(tmp_path, undeclared("drawn", "needs"), alone), given()) is None


def test_a_model_or_intents_check_for_unlike_words_but_not_where_texts_do_not_count(
    tmp_path: Path,
) -> None:
    compared = given(unlike_words="a model")
    known = policy(tmp_path, undeclared("needs"))
    found = premise(known, given())
    assert found is not None
    assert "harness stage prepare --similar" in found.remedy
    assert premise(known, compared) is None
    assert premise(replace(known, clusters="none"), compared) is not None


def test_a_sample_needs_a_judge_that_the_policy_names(tmp_path: Path) -> None:
    known, sample = policy(tmp_path, undeclared("judges")), gate_sample("nDCG@10")
    assert premise(known, given()) is None
    assert (
        premise(known, given(kinds={Samples: Samples({(*sample.key[:2], "RR@10"): sample})}))
        is None
    )
    found = premise(known, given(kinds={Samples: Samples({sample.key: sample})}))
    assert found is not None
    assert found.reason.startswith("judges (")


def test_a_sample_of_a_machine_holds_the_step_whatever_is_declared(tmp_path: Path) -> None:
    known = policy(tmp_path)
    people = gate_sample("nDCG@10")
    assert premise(known, given(kinds={Samples: Samples({people.key: people})})) is None
    machine = replace(people, by="machine:rules")
    found = premise(known, given(kinds={Samples: Samples({people.key: machine})}))
    assert found is not None
    assert found.cause is Cause.PREMISE
    assert "judges: machine:rules judged, and its error is in no interval" in found.reason
    assert "a sample that people judge" in found.remedy


def gate_sample(measure: str) -> Sample:
    return Sample("fts5", "tantivy", measure, 1, 0.1, {}, "a machine")


@pytest.mark.parametrize(("starts", "open_"), [(STARTS - 4, True), (STARTS, False)])
def test_few_starts_are_declared_and_many_alike_are_a_check(
    tmp_path: Path, *, starts: int, open_: bool
) -> None:
    known = policy(tmp_path, undeclared("starts"), GATES + RACED)
    race = gate_inputs.race(1.0)
    arms = dict(zip(("fts5", "tantivy"), race.elapsed_ns.values(), strict=False))
    many = {arm: np.repeat(times[:1], starts, axis=0) for arm, times in arms.items()}
    found = premise(known, given(kinds={Race: replace(race, elapsed_ns=many)}))
    assert bool(found and found.reason.startswith("starts (")) is open_
    assert premise(policy(tmp_path, undeclared("slowest"), GATES + RACED), given()) is not None


@pytest.mark.parametrize(("size", "refuted"), [(1, False), (2, False), (12, True)])
def test_a_cluster_that_is_surely_too_large_refutes_the_key(
    tmp_path: Path, *, size: int, refuted: bool
) -> None:
    plain = given()
    clusters = dict.fromkeys(plain.control.run.query_ids[:size], "one need")
    found = premise(policy(tmp_path), replace(plain, clusters=clusters))
    assert (found is not None) is refuted
    if found:
        assert "one need has 12 of 300 queries, and largest_cluster is 0.01%" in found.reason


DRIFT = not_as_pinned(["1 query added (b)"], pinned_at="2026-03-01", again="harness policy pin p")


@pytest.fixture
def kept(tmp_path: Path) -> Policy:
    later = STEP.replace('name = "tantivy"', 'name = "later"')
    path = tmp_path / "p.toml"
    path.write_text(HEAD + STEP + GATES + later + GATES)
    return load_policy(path)


def test_every_step_has_it_and_the_policy_is_still_kept(kept: Policy) -> None:
    decisions = decide(kept, {}, now=NOW, reservations=[DRIFT])
    held_to(kept, decisions)
    for step, decision in zip(kept.steps, decisions, strict=True):
        assert decision.findings[-1] == DRIFT
        assert [found.gate for found in decision.findings[:-1]] == [
            gate.name for gate in step.gates
        ]
        assert decision.outcome is Outcome.HOLD
    assert DRIFT.cause is Cause.PINNED
    assert DRIFT.reason == "since the pin of 2026-03-01: 1 query added (b)"


def spent(by: float, attempts: int = 1) -> Looks:
    return Looks(attempts, 0, 0, by, (), ())


def test_attempts_within_the_budget_hold_nothing(kept: Policy) -> None:
    assert kept.alpha == pytest.approx(0.25)
    assert over_budget(kept, {"tantivy": spent(kept.alpha)}) == {}


def test_attempts_beyond_the_budget_hold_the_step_and_no_other(
    kept: Policy,
) -> None:
    beyond = over_budget(kept, {"tantivy": spent(0.275, 11), "later": spent(0.025)})
    (finding,) = beyond.values()
    assert "attempt 11 and 10 were planned" in finding.reason
    assert "0.275, and the budget is 0.25" in finding.reason
    assert finding.cause is Cause.BUDGET
    assert finding.timed
    first, second = decide(kept, {}, now=NOW, spent=beyond)
    assert first.findings[-1] == finding
    assert finding not in second.findings


def test_a_policy_that_declares_its_attempts_counts_none(kept: Policy) -> None:
    declared = replace(kept, declared="a clone keeps no log")
    assert over_budget(declared, {"tantivy": spent(0.9, 99)}) == {}


AT = datetime(2026, 3, 1, tzinfo=UTC)
FIRST = Inventory.of([Query("a", "one")], Qrels({"a": {"d": 1}}))
SECOND = Inventory.of([Query("a", "one"), Query("b", "two")], Qrels({"a": {"d": 1}}))


def test_a_policy_without_pins_has_none(tmp_path: Path) -> None:
    assert path_of(tmp_path / "mail.toml") == tmp_path / "mail.pins.json"
    assert read(tmp_path / "mail.toml").datasets == {}


def test_what_differs_from_a_pin_is_told(tmp_path: Path) -> None:
    found = pin(tmp_path / "p.toml", "toy", FIRST, {"k": 50}, at=AT, by="me")
    assert found == read(tmp_path / "p.toml").datasets["toy"]
    assert found.differences(FIRST, {"k": 50}) == ()
    assert found.differences(SECOND, {"k": 50}) == ("1 query added (b)",)
    assert found.differences(FIRST, {"k": 20, "seed": 1}) == (
        "race k is 20, pinned 50", "race seed is 1, pinned not set",
    )  # fmt: skip


def test_no_race_is_no_other_race(tmp_path: Path) -> None:
    raced = pin(tmp_path / "p.toml", "toy", FIRST, {"k": 50}, at=AT, by="me")
    assert raced.differences(FIRST, {}) == ()
    never = pin(tmp_path / "q.toml", "toy", FIRST, {}, at=AT, by="me")
    assert never.differences(FIRST, {"k": 50}) == ()


def test_every_pin_is_kept_with_what_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    pin(file, "toy", FIRST, {}, at=AT, by="me")
    pin(file, "other", FIRST, {}, at=AT, by="me")
    pin(file, "toy", SECOND, {}, at=AT + timedelta(days=1), by="you")
    found = read(file).datasets
    assert found.keys() == {"toy", "other"}
    assert [(one.by, one.changes) for one in found["toy"].made] == [
        ("me", ()), ("you", ("1 query added (b)",)),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "datasets": {}}', '{"datasets": 1}'])
def test_what_is_no_pin_is_refused(tmp_path: Path, text: str) -> None:
    path_of(tmp_path / "p.toml").write_text(text)
    with pytest.raises(BadFile, match=r"p\.pins\.json:(1:)? "):
        read(tmp_path / "p.toml")
    with pytest.raises(BadFile, match=r"p\.pins\.json:(1:)? "):
        pin(tmp_path / "p.toml", "toy", FIRST, {}, at=AT, by="me")
