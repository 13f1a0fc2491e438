"""A decision cites what was registered, says what differs, and verification derives that again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Outcome
from harness.policy.load import load_policy
from harness.policy.plan.plan import plan
from harness.policy.plan.registration import path_of
from harness.stages.custody.verify import verify
from harness.stages.experiments import log as experiment_log
from harness.stages.plan.planning import ground
from harness.stages.plan.registering import register
from tests.make.forging import forge
from tests.make.toy import GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow

AT = datetime(2026, 3, 1, tzinfo=UTC)
PLAIN = HEAD + STEP + GATES
DEMANDED = HEAD + 'registered = "toy.plan.json"\n' + STEP + GATES


def registered(project: Toy, text: str = PLAIN, to: Path | None = None) -> Path:
    """Write a policy, and register what it plans; without a pilot, so that the toy is enough."""
    project.policy(text)
    file = project.project.policy_file
    policy = load_policy(file)
    about = ground(project.layout, policy, None)._replace(pilots={})
    path = to or path_of(file)
    log = experiment_log.read(project.layout).experiments
    register(path, file, plan(policy, about.at_hand, {}), about, log, at=AT, by="me")
    return path


def decided(project: Toy) -> dict[str, Any]:
    project.decide()
    (about,) = json.loads(project.layout.decision.read_text())["datasets"]
    found: dict[str, Any] = about
    return found


def outcome(about: dict[str, Any]) -> str:
    return str(about["steps"][0]["outcome"])


def test_a_decision_cites_what_lies_beside_its_policy(project: Toy) -> None:
    path = registered(project)
    about = decided(project)
    found = about["evidence"]["registration"]
    assert (found["file"], found["by"], found["demanded"]) == (path.name, "me", False)
    assert found["departures"] == about["record"]["departures"] == []
    assert outcome(about) == Outcome.PROMOTE.value
    said = {one.what: one.said for one in verify(project.layout)}
    assert said["registration"].startswith("toy.registered.json, ")
    assert said["registration"].endswith(": nothing differs")


def test_without_one_nothing_is_cited(project: Toy) -> None:
    project.policy(PLAIN)
    assert decided(project)["evidence"]["registration"] is None
    assert ("registration", "none is cited") in verify(project.layout)


def test_a_wider_margin_is_named_and_the_line_alone_does_not_hold(project: Toy) -> None:
    registered(project)
    project.policy(PLAIN.replace("margin = 0.15", "margin = 0.3"))
    about = decided(project)
    says = ["gate 'Quality' of step tantivy: margin is 0.3, registered 0.15"]
    assert about["evidence"]["registration"]["departures"] == says
    assert outcome(about) == Outcome.PROMOTE.value
    said = {one.what: one.said for one in verify(project.layout)}
    assert says[0] in said["registration"]


def test_where_the_policy_demands_it_a_departure_promotes_nothing(project: Toy) -> None:
    plan_file = project.project.policy_file.with_name("toy.plan.json")
    registered(project, DEMANDED, plan_file)
    assert outcome(decided(project)) == Outcome.PROMOTE.value
    project.policy(DEMANDED.replace("margin = 0.15", "margin = 0.3"))
    about = decided(project)
    assert outcome(about) == Outcome.HOLD.value
    every = [one for one in about["steps"][0]["findings"] if one["rule"] == "registered"]
    assert {one["verdict"] for one in every} == {"inconclusive"}
    assert {one["timed"]: one["reason"] for one in every} == {
        False: "gate 'Quality' of step tantivy: margin is 0.3, registered 0.15",
        True: "step tantivy was looked at 2 times, planned 1",
    }
    verify(project.layout)


def test_a_registration_that_is_demanded_and_absent_promotes_nothing(project: Toy) -> None:
    project.policy(DEMANDED)
    about = decided(project)
    assert outcome(about) == Outcome.HOLD.value
    assert about["evidence"]["registration"]["sha256"] is None
    assert "missing file" in about["evidence"]["registration"]["departures"][0]
    verify(project.layout)


def test_looks_before_it_are_said_and_those_after_it_counted(project: Toy) -> None:
    project.policy(PLAIN)
    decided(project)
    registered(project, PLAIN)
    again = decided(project)
    assert again["evidence"]["registration"]["looked_at_before"] == 1
    assert again["record"]["departures"] == []
    for seed in (6, 7):
        project.policy(PLAIN.replace("seed = 5", f"seed = {seed}"))
        about = decided(project)
    assert about["evidence"]["registration"]["departures"] == ["seed is 7, registered 5"]
    assert about["record"]["departures"] == ["step tantivy was looked at 3 times, planned 2"]


def test_another_registration_in_its_place_is_refused(project: Toy) -> None:
    path = registered(project)
    decided(project)
    kept = path.read_text()
    path.write_text(kept.replace('"by": "me"', '"by": "you"'))
    with pytest.raises(EvidenceError, match=r"toy\.registered\.json"):
        verify(project.layout)
    path.unlink()
    with pytest.raises(EvidenceError, match=r"toy\.registered\.json"):
        verify(project.layout)


def test_a_departure_that_was_taken_out_of_the_decision_is_missed(project: Toy) -> None:
    registered(project)
    project.policy(PLAIN.replace("margin = 0.15", "margin = 0.3"))
    decided(project)

    def edit(about: dict[str, Any]) -> None:
        about["evidence"]["registration"]["departures"] = []

    forge(project.layout, edit)
    with pytest.raises(EvidenceError, match=r"registration\.departures.*derived"):
        verify(project.layout)
