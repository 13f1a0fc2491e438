"""``harness selftest``: rates of the policy's gates, and engines that must lose."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BadFile
from harness.core.run import Run
from harness.measures.quality import score
from harness.stages import selftest as stage
from tests.cli.conftest import Harness
from tests.toy import CONTROL, GATES, HEAD, NAME, STEP, Toy

FEW = ("--trials", "40")


def test_rates_are_printed_and_written(project: Toy, harness: Harness) -> None:
    shutil.rmtree(project.cache)
    said = harness("selftest", "--dataset", NAME, *FEW)
    assert said.code == 0, said
    assert "tantivy: Quality (nDCG@10)" in said.out
    assert "promoted wrongly 0.0" in said.out
    assert "41 queries show a loss of" in said.out
    for model in ("the control itself", "shuffled", "popular"):
        assert f"tantivy: {model}: as it should (Quality: " in said.out
    written = json.loads(project.layout.selftest.read_text())
    assert written["valid"] is True
    (gate,) = written["gates"]
    assert (gate["gate"], gate["limit"], gate["queries"]) == ("Quality", -0.1, 41)
    assert gate["false_promote"]["n"] == 40
    assert gate["false_promote"]["low"] <= written["level"] == pytest.approx(0.025)
    assert [null["model"] for null in written["nulls"]] == [stage.ITSELF, "shuffled", "popular"]
    again = project.layout.selftest.read_bytes()
    assert harness("selftest", *FEW).out == said.out
    assert project.layout.selftest.read_bytes() == again


def test_an_engine_that_knows_nothing_and_passes_makes_the_harness_invalid(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def itself(run: Run) -> Run:
        return run

    monkeypatch.setattr(stage, "popular", itself)
    said = harness("selftest", *FEW)
    assert said.code == 2
    assert "popular: INVALID (Quality: pass)" in said.out
    assert "no verdict on this data may be believed" in said.out
    assert json.loads(project.layout.selftest.read_text())["valid"] is False


def test_a_control_that_loses_to_itself_makes_it_invalid(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty(run: Run, *_: object) -> Run:
        return Run.of(run.arm, (row._replace(hits=()) for row in run.rows()))

    monkeypatch.setattr(stage, "score", lambda run, *rest: score(empty(run), *rest))
    assert harness("selftest", *FEW).code == 2
    assert f"{stage.ITSELF}: INVALID" in harness("selftest", *FEW).out
    assert project.layout.selftest.is_file()


def test_a_control_that_is_named_chooses_the_steps(project: Toy, harness: Harness) -> None:
    assert "tantivy: Quality" in harness("selftest", *FEW, "--control", CONTROL).out
    said = harness("selftest", *FEW, "--control", "none")
    assert "no control of a comparison named 'none'; there is fts5" in said.error
    later = STEP.replace('"tantivy"', '"hash-hybrid"')
    project.policy(HEAD + STEP + GATES + later + GATES)
    project.judge_again()
    assert "hash-hybrid: Quality" in harness("selftest", *FEW, "--control", CONTROL).out
    two = (project.root / "policy" / "toy.toml").read_text().replace('"fts5"', '"tantivy"')
    project.policy(two.replace('candidate = "tantivy"', 'candidate = "fts5"'))
    assert "no control of a step named" in harness("selftest", "--control", CONTROL).error


def test_the_next_decision_shows_it_and_another_policy_does_not(
    project: Toy, harness: Harness
) -> None:
    def shown() -> Any:  # noqa: ANN401  what json gives back
        project.decide()
        (about,) = json.loads(project.layout.decision.read_text())["datasets"]
        return about["trust"]

    assert shown()["selftest"] is None
    assert shown()["command"] == f"harness selftest --dataset {NAME}"
    harness("selftest", *FEW)
    (gate,) = shown()["selftest"]["gates"]
    assert (gate["gate"], gate["false_promote"]["n"]) == ("Quality", 40)
    project.policy(HEAD + STEP + GATES.replace("margin = 0.1", "margin = 0.09"))
    assert shown()["selftest"] is None
    harness("selftest", *FEW)
    assert shown()["selftest"]["gates"][0]["limit"] == -0.09
    project.layout.selftest.write_text("{}")
    with pytest.raises(BadFile, match=r"selftest\.json: is no selftest .*Run: harness selftest"):
        project.decide()


def test_with_a_policy_or_a_control_nothing_is_written(project: Toy, harness: Harness) -> None:
    file = project.root / "policy" / "toy.toml"
    for words in (("--policy", str(file)), ("--control", CONTROL)):
        assert harness("selftest", *FEW, *words).code == 0
        assert not project.layout.selftest.exists()


def test_what_harness_run_left_is_tried_too(project: Toy, harness: Harness, tmp_path: Path) -> None:
    left = tmp_path / "left"
    words = ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", CONTROL)
    assert harness(*words, "--out", left).code == 0
    policy = project.root / "policy" / "pairwise.toml"
    said = harness("selftest", "--out", left, "--policy", policy, "--control", CONTROL, *FEW)
    assert said.code == 0, said
    assert "tantivy: Quality" in said.out
