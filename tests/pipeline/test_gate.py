"""Stage ``gate``: a decision that its evidence gives, or none at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from harness.core.errors import BadFile, EvidenceError, UnknownName
from harness.core.gate import Outcome, Verdict
from harness.pipeline import gate as stage
from harness.pipeline.gate import check_decision, gate, read_decision
from harness.pipeline.receipts import read_manifest
from harness.report.decision.decision_json import schema
from tests.make.toy import CANDIDATE, CONTROL, GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow
Spoil = Callable[[Toy], object]


def test_a_candidate_as_good_is_promoted(project: Toy) -> None:
    decision = project.decide()
    assert decision.outcome is Outcome.PROMOTE
    assert [finding.gate for finding in decision.findings] == [
        "Who answers", "Answers", "Quality", "Overlap", "Order", "Speed",
    ]  # fmt: skip
    assert [f.gate for f in decision.findings if f.timed] == ["Speed"]


def test_the_decision_fits_its_schema_and_is_read_back(project: Toy) -> None:
    said = project.decide()
    written = json.loads(project.layout.decision.read_text())
    jsonschema.validate(written, schema())
    (read,), decided_at = read_decision(project.layout)
    assert (read.step, read.outcome, read.verdict) == (said.step, said.outcome, said.verdict)
    assert datetime.now(UTC) - decided_at < timedelta(minutes=5)


def test_the_decision_names_what_it_rests_on(project: Toy) -> None:
    project.decide()
    (about,) = json.loads(project.layout.decision.read_text())["datasets"]
    for arm in (CONTROL, CANDIDATE):
        made = json.loads(project.layout.manifest(arm).read_text())
        shown = about["provenance"]["arms"][arm]
        assert {key: shown[key] for key in made} == made
    data = json.loads((project.layout.data / "manifest.json").read_text())
    assert about["provenance"]["sha256"]["corpus"] == data["corpus_sha256"]
    assert about["provenance"]["seed"] == 5
    expires = datetime.fromisoformat(about["provenance"]["expires_at"])
    decided = datetime.fromisoformat(about["provenance"]["decided_at"])
    assert expires - decided == timedelta(days=2)


def test_the_findings_hold_nothing_that_rests_on_a_clock(project: Toy) -> None:
    project.decide()
    first = project.layout.findings.read_bytes()
    project.race()
    project.decide()
    assert project.layout.findings.read_bytes() == first
    (step,) = json.loads(first)["steps"]
    assert "Speed" not in {finding["gate"] for finding in step["findings"]}


def test_the_junit_file_has_a_case_for_each_gate(project: Toy) -> None:
    project.policy(HEAD + STEP + GATES.replace("margin = 0.15", "margin = 0.2"))
    project.decide()
    (suite,) = ET.parse(project.layout.junit).getroot()  # noqa: S314  we wrote it
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert len(cases) == 5
    assert suite.get("name") == "toy/tantivy"
    assert cases["Quality"].find("error") is None
    assert cases["Who answers"].find("failure") is None


def test_a_bound_that_is_missed_holds_the_step(project: Toy) -> None:
    project.policy(HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.995"))
    decision = project.decide()
    assert decision.outcome is Outcome.HOLD
    assert [finding.gate for finding in decision.blocking] == ["Overlap"]
    assert decision.verdict is Verdict.FAIL


def test_a_step_that_was_taken_is_rolled_back(project: Toy) -> None:
    own = read_manifest(project.layout, CONTROL).fingerprint
    text = HEAD + STEP.replace("taken = false", f"taken = true\nbaseline = '{own}'")
    project.policy(text + GATES.replace("floor = 0.6", "floor = 0.995"))
    assert project.decide().outcome is Outcome.ROLLBACK


def test_a_timed_gate_without_a_race_is_inconclusive(project: Toy) -> None:
    project.layout.race_receipt.unlink()
    decision = project.decide()
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert [(f.gate, f.reason) for f in decision.blocking] == [("Speed", "no race was run")]


def test_an_old_decision_does_not_stand_for_a_failed_one(project: Toy) -> None:
    project.decide()
    project.layout.again(CONTROL).unlink()
    with pytest.raises(EvidenceError, match=r"again\.parquet: is gone"):
        project.decide()
    assert not project.layout.decision.exists()
    assert not project.layout.junit.exists()


def test_without_a_policy_nothing_is_judged(project: Toy) -> None:
    subject = replace(project.project.subject(NAME), policy=None)
    with pytest.raises(EvidenceError, match="name a policy"):
        gate(project.layout, subject, now=datetime.now(UTC))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda p: p.policy(HEAD + STEP + GATES + "\n"), r"toy\.toml: was changed since"),
        (lambda p: p.race(), r"times\.parquet: was changed since"),
        (lambda p: p.layout.decision_receipt.unlink(), "nothing was measured yet"),
        (
            lambda p: p.layout.decision.write_text(p.layout.decision.read_text() + " "),
            r"decision\.json: was changed since",
        ),
    ],
)
def test_a_decision_is_of_the_evidence_and_policy_at_hand(
    project: Toy, spoil: Spoil, says: str
) -> None:
    project.decide()
    now = datetime.now(UTC)
    check_decision(project.layout, project.project.subject(NAME), now=now)
    spoil(project)
    with pytest.raises(EvidenceError, match=rf"{says}.*Run: harness gate --dataset toy"):
        check_decision(project.layout, project.project.subject(NAME), now=now)


def test_a_decision_that_expired_is_not_shown(project: Toy) -> None:
    project.decide()
    subject = project.project.subject(NAME)
    now = datetime.now(UTC)
    check_decision(project.layout, subject, now=now + timedelta(hours=47))
    says = r"decision\.json: expired: .* 2 days old.*Run: harness gate --dataset toy"
    with pytest.raises(EvidenceError, match=says):
        check_decision(project.layout, subject, now=now + timedelta(hours=49))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "nothing was decided yet. Run: harness gate --dataset toy"),
        ("{not", "not JSON"),
        ("{}", "schema_version"),
    ],
)
def test_a_decision_that_cannot_be_read_is_named(project: Toy, text: str | None, says: str) -> None:
    project.layout.decision.unlink(missing_ok=True)
    if text is not None:
        project.layout.decision.write_text(text)
    with pytest.raises(BadFile, match=says):
        read_decision(project.layout)


def test_a_gate_on_an_arm_that_was_not_measured_is_refused(project: Toy) -> None:
    project.policy(HEAD + STEP.replace('"fts5"', '"dense"') + GATES)
    with pytest.raises((EvidenceError, UnknownName), match="dense"):
        project.decide()


def test_what_is_left_of_a_decision_without_times() -> None:
    assert "provenance" not in stage.DETERMINISTIC
    assert "latency" not in stage.DETERMINISTIC
