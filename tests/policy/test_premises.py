"""What a PASS takes for granted is checked or declared, and else holds the step by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.evidence import Evidence, Race, Sample, Samples
from harness.core.gate import Cause, Finding, Outcome
from harness.policy.decision import decide, open_premises
from harness.policy.load import load_policy
from harness.policy.model import UNDECLARED, Policy
from tests.make import gate_inputs
from tests.make.toy import GATES, HEAD, RACED, STEP
from tests.policy import test_decide

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
