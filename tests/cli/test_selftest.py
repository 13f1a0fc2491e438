"""``harness selftest``: rates of the policy's gates, and engines that must lose."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BadFile
from harness.core.run import Run
from harness.core.scores import Estimate
from harness.gates.base.rules import above
from harness.measures.quality import score
from harness.policy.selftest import requirements
from harness.stages import selftest as stage
from harness.stats import interval
from tests.cli.conftest import Harness
from tests.make.toy import CONTROL, GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow
FEW = ("--trials", "40")
HONEST = vars(interval)["_outer"]


def test_rates_are_printed_and_written(project: Toy, harness: Harness) -> None:
    shutil.rmtree(project.cache)
    said = harness("selftest", "--dataset", NAME, *FEW)
    assert said.code == 0, said
    assert "tantivy: Quality (nDCG@10)" in said.out
    assert "false promotion 0.0" in said.out
    assert "41 queries show a loss of" in said.out
    for model in ("the control itself", "shuffled", "popular"):
        assert f"tantivy: {model}: as it should (Quality: " in said.out
    written = json.loads(project.layout.selftest.read_text())
    assert written["valid"] is True
    (gate,) = written["gates"]
    assert (gate["gate"], gate["limit"], gate["queries"]) == ("Quality", -0.15, 41)
    for one in gate["planted"]:
        assert one["promoted"]["n"] == 40
        assert one["assumed"] or one["promoted"]["low"] <= written["level"]
    (curve,) = written["curves"]
    assert [point["times"] for point in curve["points"]] == [0, 0.5, 1, 2]
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
    assert "popular: INVALID (Quality: pass, Overlap: pass)" in said.out
    assert "a null model was not refused" in said.out
    assert json.loads(project.layout.selftest.read_text())["valid"] is False


def swapped(*given: Any) -> Estimate:  # noqa: ANN401  as the honest one
    found = HONEST(*given)
    return Estimate(found.value, found.high, found.low, found.n)


def test_swapped_ends_of_an_interval_are_convicted(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate that takes the upper end for the lower one passes nearly every planted loss."""
    monkeypatch.setattr(interval, "_outer", swapped)
    said = harness("selftest", *FEW)
    assert said.code == 2, said
    assert "CONVICTED: tantivy: Quality: a pass of this gate does not count" in said.out
    assert json.loads(project.layout.selftest.read_text())["valid"] is False


def test_a_convicted_gate_does_not_pass_wherever_the_decision_is_read(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.untimed()
    assert harness("gate").code == 0
    with monkeypatch.context() as eager:
        eager.setattr(requirements, "above", lambda found, bound: above(found, bound - 0.1))
        assert harness("selftest", *FEW).code == 2
    said = harness("gate")
    assert said.code == 3, said
    assert "INCONCLUSIVE: Quality" in said.out
    (about,) = json.loads(project.layout.decision.read_text())["datasets"]
    (found,) = (gate for gate in about["steps"][0]["findings"] if gate["gate"] == "Quality")
    assert found["verdict"] == "inconclusive"
    assert "the selftest convicts this gate: it passed in" in found["reason"]
    assert "2.5 % is allowed" in found["reason"]
    assert "the selftest convicts" in project.layout.junit.read_text()
    assert harness("report").code == 0
    assert "the selftest convicts" in (project.root / "reports" / "index.html").read_text()
    assert harness("selftest", *FEW).code == 0
    assert harness("gate").code == 0


def trying(project: Toy) -> None:
    """Let every decision be made with a selftest."""
    path = project.root / "params.yaml"
    path.write_text(path.read_text().replace("selftest: {trials: 0}", "selftest: {trials: 40}"))


def test_a_gate_is_convicted_without_being_asked(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.untimed()
    trying(project)
    with monkeypatch.context() as eager:
        eager.setattr(requirements, "above", lambda found, bound: above(found, bound - 0.1))
        said = harness("gate")
    assert said.code == 3, said
    (about,) = json.loads(project.layout.decision.read_text())["datasets"]
    assert about["trust"]["selftest"]["trials"] == 40
    (found,) = (gate for gate in about["steps"][0]["findings"] if gate["gate"] == "Quality")
    assert "the selftest convicts this gate: it passed in" in found["reason"]


def test_other_judging_code_has_another_selftest(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.untimed()
    trying(project)
    assert harness("gate").code == 0
    first = project.layout.selftest.read_bytes()
    assert harness("gate").code == 0
    assert project.layout.selftest.read_bytes() == first, "made again where it fits"
    assert harness("verify", "--dataset", NAME).code == 0
    monkeypatch.setattr(stage, "judging_sha256", lambda: "other")
    assert harness("verify", "--dataset", NAME).code == 0, "other code, and the same numbers"
    assert harness("gate").code == 0
    made = json.loads(project.layout.selftest.read_text())
    assert made.pop("made_from")["code"] == "other"
    assert made.items() <= json.loads(first).items()


def test_a_run_tries_its_gates(tmp_path: Path, project: Toy, harness: Harness) -> None:
    trying(project)
    out = tmp_path / "out"
    words = "--dataset", NAME, "--arms", "fts5,tantivy", "--control", CONTROL, "--out", str(out)
    assert harness("run", *words).code == 0
    (about,) = json.loads((out / "decision.json").read_text())["datasets"]
    assert about["trust"]["selftest"]["trials"] == 40
    assert "Null-model check passed" in (out / "index.html").read_text()
    assert harness("verify", "--out", str(out)).code == 0


def test_a_null_model_that_passes_takes_the_pass_of_its_gates_back(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.untimed()
    with monkeypatch.context() as blind:
        blind.setattr(stage, "popular", lambda run: run)
        assert harness("selftest", *FEW).code == 2
    said = harness("gate")
    assert said.code == 3, said
    assert "with popular as the candidate the gates said Overlap: pass, Quality: pass" in said.out


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
    assert "no control of a step named" in harness("selftest", *FEW, "--control", CONTROL).error


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
    assert gate["convicted"] is False
    project.policy(HEAD + STEP + GATES.replace("margin = 0.15", "margin = 0.14"))
    assert shown()["selftest"] is None
    harness("selftest", *FEW)
    assert shown()["selftest"]["gates"][0]["limit"] == -0.14
    project.layout.selftest.write_text("{}")
    with pytest.raises(BadFile, match=r"selftest\.json: is not a selftest .*Run: harness selftest"):
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


TOOTHLESS = {
    "non_inferior": 'measure = "Judged@10"\nmargin = 0.6',
    "equivalent": 'measure = "Judged@10"\nmargin = 0.6',
    "no_slice_harmed": 'measure = "Judged@10"\nmargin = 0.6',
    "agreement_floor": 'measure = "Jaccard@50"\nfloor = 0.0001',
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rule", TOOTHLESS)
def test_a_gate_that_cannot_fail_is_convicted(project: Toy, harness: Harness, rule: str) -> None:
    gate = f'[[step.gate]]\nname = "Quality"\nrule = "{rule}"\n{TOOTHLESS[rule]}\n'
    project.policy(HEAD + STEP + gate)
    said = harness("selftest", *FEW)
    assert said.code == 2, said
    assert "shuffled: INVALID (Quality: " in said.out
    assert harness("gate").code == 3


def test_a_step_without_a_gate_on_quality_says_that_no_null_model_was_tried(
    project: Toy, harness: Harness
) -> None:
    project.policy(HEAD + STEP + '[[step.gate]]\nname = "Who"\nrule = "identity"\n')
    said = harness("selftest", *FEW)
    assert said.code == 0, said
    assert "tantivy: null models were not tested: the step has no gate on quality" in said.out
    assert harness("gate").code == 0
    assert harness("report").code == 0
    page = (project.root / "reports" / "index.html").read_text()
    assert "Null models were not tested in tantivy" in page
    assert "check passed" not in page
