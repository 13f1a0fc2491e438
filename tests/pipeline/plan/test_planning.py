"""The ground of a plan: a pipeline's data and runs, a folder before any run, a run's arms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.pipeline.pins import Folder
from harness.pipeline.plan import for_control, ground, ground_of_folder
from harness.policy.load import load_policy
from harness.policy.plan import Raced, plan
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy

SET_UP = Raced(9, 99)


def test_runs_that_are_there_are_the_pilot(measured: Toy) -> None:
    policy = load_policy(measured.project.policy_file)
    found = ground(measured.layout, policy, SET_UP)
    assert found.dataset == NAME
    assert found.pilots.keys() == {"tantivy"}
    assert found.at_hand.race == Raced(3, 20)
    assert len(found.at_hand.queries) == 41
    assert (len(found.at_hand.answerable), len(found.at_hand.negative)) == (41, 0)
    (step,) = plan(policy, found.at_hand, found.pilots)
    quality = next(one for one in step.needs if one.gate.name == "Quality")
    assert quality.alone is not None


def test_before_any_run_there_is_no_pilot(measured: Toy) -> None:
    policy = load_policy(measured.project.policy_file)
    found = ground_of_folder(Folder(measured.root / "beir", "test", forms=False), policy, SET_UP)
    assert (found.dataset, found.pilots, found.at_hand.race) == ("beir", {}, SET_UP)
    of_stage = ground(measured.layout, policy, SET_UP)
    assert found.inventory == of_stage.inventory
    assert found.at_hand.answerable == of_stage.at_hand.answerable


def test_data_that_were_not_prepared_are_no_ground(measured: Toy) -> None:
    policy = load_policy(measured.project.policy_file)
    nowhere = replace(measured.layout, root=measured.root / "build" / "none")
    with pytest.raises(BadFile, match="missing file"):
        ground(nowhere, policy, SET_UP)


def test_a_step_is_planned_for_each_arm_that_was_compared(measured: Toy) -> None:
    file = measured.project.policy_file.with_name("template.toml")
    file.write_text(HEAD + STEP + GATES)
    policy = load_policy(file)
    file.unlink()
    each = for_control(measured.layout, policy, "fts5")
    assert "tantivy" in [step.candidate for step in each.steps]
    assert {step.control for step in each.steps} == {"fts5"}
    with pytest.raises(EvidenceError, match="no arm is compared with nobody"):
        for_control(measured.layout, policy, "nobody")
