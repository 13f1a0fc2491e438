"""``harness.cli.pipeline``: the stages by their commands, and the exit codes that a CI reads."""

from __future__ import annotations

import json

import pytest

from harness.cli.project import Project
from harness.pipeline.receipts import read_manifest
from tests.cli.conftest import Harness
from tests.make.toy import CONTROL, GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow
SECOND = STEP.replace('name = "tantivy"', 'name = "hybrid"').replace(
    'candidate = "tantivy"', 'candidate = "hash-hybrid"'
)
ONE_GATE = '\n[[step.gate]]\nname = "Who answers"\nrule = "identity"\n'
UNSURE = GATES.replace("margin = 0.15", "margin = 0.15\nslice = 'identifier'")
FAILS = GATES.replace("floor = 0.6", "floor = 0.999")


def test_every_stage_by_its_command(project: Toy, harness: Harness) -> None:
    for words in (
        ("stage", "prepare", "--dataset", "toy"),
        *(("stage", "index", "--dataset", "toy", "--arm", arm) for arm in project.params.arms),
        *(("stage", "replay", "--dataset", "toy", "--arm", arm) for arm in project.params.arms),
        ("stage", "score", "--dataset", "toy"),
        ("stage", "compare", "--dataset", "toy"),
        ("race", "--dataset", "toy"),
        ("gate", "--dataset", "toy"),
        ("report",),
    ):
        said = harness(*words)
        assert said.code == 0, (words, said)
        assert said.err == ""
    assert (project.root / "reports" / "index.html").is_file()
    assert json.loads(project.layout.decision.read_text())["summary"]["verdict"] == "pass"


def test_a_stage_takes_all_that_the_settings_name(project: Toy, harness: Harness) -> None:
    stages = ("prepare", "index", "replay", "score", "compare", "race", "gate", "report")
    for stage in stages:
        said = harness(*(["stage"] if stage in stages[:5] else []), stage)
        assert said.code == 0, (stage, said)
    assert all(project.layout.run(arm).is_file() for arm in project.params.arms)
    assert json.loads(project.layout.decision.read_text())["summary"]["verdict"] == "pass"


@pytest.mark.parametrize("words", [(), ("--arm", CONTROL), ("--dataset", "toy")])
def test_one_index_is_named_that_follows_its_messages(
    words: tuple[str, ...], project: Toy, harness: Harness
) -> None:
    assert project.root
    said = harness("stage", "index", "--follow", *words)
    assert said.code == 2
    assert "name --dataset and --arm" in " ".join(said.err.split())


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("policy", "words", "code"),
    [
        (STEP + GATES, (), 0),
        (STEP + FAILS, (), 1),
        (STEP + FAILS, ("--exit-zero",), 0),
        (STEP + UNSURE, (), 3),
        (STEP + UNSURE, ("--exit-zero",), 0),
        (STEP.replace("taken = false", "taken = true\nbaseline = 'OWN'") + FAILS, (), 1),
    ],
)
def test_gate_exits_by_the_verdict(
    project: Toy, harness: Harness, policy: str, words: tuple[str, ...], code: int
) -> None:
    project.untimed()
    own = read_manifest(project.layout, CONTROL).fingerprint
    project.policy(HEAD + policy.replace("OWN", own))
    assert harness("gate", "--dataset", "toy", *words).code == code


def test_gate_prints_what_stands_in_the_way(project: Toy, harness: Harness) -> None:
    project.untimed()
    project.policy(HEAD + STEP + FAILS)
    said = harness("gate")
    assert "tantivy    HOLD  fts5 -> tantivy" in said.out
    assert "FAIL: Overlap: 0.9727 Jaccard@10 [" in said.out
    project.policy(HEAD + STEP + UNSURE)
    said = harness("gate")
    assert "HOLD (inconclusive)" in said.out
    assert "to reach a decision: judge 9 more independent queries" in said.out


def test_a_step_that_is_named_decides_the_code_alone(project: Toy, harness: Harness) -> None:
    project.untimed()
    project.policy(HEAD + STEP + FAILS + SECOND + ONE_GATE)
    project.judge_again()
    assert harness("gate").code == 1
    said = harness("gate", "--step", "hybrid")
    assert said.code == 3
    assert "waits for the step tantivy" in said.out


def test_a_bad_input_is_two_and_leaves_no_decision(project: Toy, harness: Harness) -> None:
    assert harness("gate").code == 0
    project.layout.run("tantivy").unlink()
    assert "tantivy.parquet: is gone" in harness("gate").error
    assert not project.layout.decision.exists()


def test_a_project_is_found_from_within(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root / "datasets" / "toy")
    assert Project.here().root == project.root


def test_arms_that_take_part_in_a_step_are_raced(project: Toy) -> None:
    project.policy(HEAD + STEP + GATES + SECOND + ONE_GATE)
    assert project.project.raced() == ("fts5", "tantivy", "hash-hybrid")


def test_doctor_finds_what_is_missing(project: Toy, harness: Harness) -> None:
    said = harness("doctor")
    assert said.code == 0
    assert "dataset   toy" in said.out
    assert "arm       fts5:" in said.out
    (project.root / "datasets" / "toy" / "card.toml").unlink()
    said = harness("doctor")
    assert said.code == 2
    assert "problem   no dataset named 'toy'" in said.out
