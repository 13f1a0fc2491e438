"""One command for all stages, its gate and the script of CI."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest

from harness.core.errors import EvidenceError, HarnessError, InvalidArm, UnknownName
from harness.core.gate import Outcome, StepDecision, Verdict
from harness.pipeline.gate import check_decision, read_decision
from harness.pipeline.imports import load_folder
from harness.pipeline.init import NewProject, begin_project
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import RESULTS, TIES, RunRequest, oneshot
from harness.pipeline.receipts import read_manifest
from harness.report.decision import schema
from harness_engines import registry as arms
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.toy import CONTROL, GATES, HEAD, NAME, STEP, Toy

STRAIGHT = """
[[step.gate]]
name = "Who answers"
rule = "identity"
"""


class Shot:
    """One folder for everything that comes out."""

    def __init__(self, project: Toy, out: Path) -> None:
        self.out = out
        self.project = project
        work = out / "work"
        self.layout = Layout(work / "build", work / "perf", work / "cache")
        self.wanted = RunRequest(
            arms=("fts5", "tantivy", "hash-hybrid"),
            runs={},
            control="fts5",
            policy_file=project.root / "policy" / "pairwise.toml",
            by_steps=False,
            until="",
            timed=False,
            licence="CC0-1.0",
            source="made by a test",
            command="harness run",
        )
        self.told: list[str] = []

    def fire(self, **changed: object) -> tuple[StepDecision, ...]:
        load_folder(self.project.root / "beir", "test", self.layout.data)
        decisions, _ = oneshot(
            self.layout,
            replace(self.wanted, **changed),  # type: ignore[arg-type]
            self.project.params,
            out=self.out,
            cache=self.project.cache,
            tell=self.told.append,
        )
        return decisions

    def steady(self) -> dict[str, bytes]:
        """Everything below the work folder that must be the same from day to day."""
        root = self.layout.root
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def shot(project: Toy, tmp_path: Path) -> Shot:
    return Shot(project, tmp_path / "out")


@pytest.mark.slow
def test_every_other_arm_is_judged_against_the_control(shot: Shot) -> None:
    decisions = shot.fire()
    outcome = {decision.step: decision.outcome for decision in decisions}
    assert outcome["tantivy"] is Outcome.PROMOTE
    assert set(outcome) == {"tantivy", "hash-hybrid"}
    assert {path.name for path in shot.out.iterdir()} == {*RESULTS, "runs", "work"} - {TIES}
    assert shot.told[-2:] == [
        "scoring and comparing",
        "judging",
    ]


@pytest.mark.slow
def test_a_race_is_of_this_run_and_not_of_an_earlier_one(shot: Shot, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    text = arms.path_of("fts5").read_text()
    own.write_text(text.replace("title_weight = 2.0", "title_weight = 3.0"))
    shot.fire(arms=("fts5", str(own)), timed=True)
    latency = json.loads((shot.out / "decision.json").read_text())["datasets"][0]["latency"]
    assert set(latency["percentiles"]) == {"fts5", "mine"}
    own.write_text(text.replace("title_weight = 2.0", "title_weight = 9.0"))
    shot.fire(arms=("fts5", str(own)))
    assert json.loads((shot.out / "decision.json").read_text())["datasets"][0]["latency"] is None


@pytest.mark.slow
def test_a_run_that_fails_leaves_no_earlier_decision(
    shot: Shot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("broken pipe")

    shot.fire()
    monkeypatch.setattr(TantivySearcher, "search", fails)
    with pytest.raises(InvalidArm, match="tantivy: not one of 41 queries was answered"):
        shot.fire()
    assert not any((shot.out / name).exists() for name in RESULTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"control": "dense"}, UnknownName, "no arm to be the control named 'dense'; .*fts5"),
        ({"arms": ()}, HarnessError, "no arm is named"),
        ({"arms": ("fts5", "tantivy", "tantivy")}, HarnessError, "two arms are named tantivy"),
        ({"arms": ("fts5",)}, EvidenceError, "no arm is compared with fts5; name one more"),
        ({"arms": ("fts5", "nope")}, UnknownName, "no arm named 'nope'"),
        ({"control": "fts5", "by_steps": True}, HarnessError, "leave --control out"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_touched(
    shot: Shot, changed: dict[str, object], error: type[HarnessError], says: str
) -> None:
    shot.out.mkdir()
    (shot.out / "decision.json").write_text("kept")
    if "control" not in changed and not changed.get("arms"):
        changed = {**changed, "control": ""}
    with pytest.raises(error, match=says):
        shot.fire(**changed)
    assert (shot.out / "decision.json").read_text() == "kept"


@pytest.mark.slow
def test_the_steps_of_a_policy_name_their_arms_and_are_judged_in_order(
    shot: Shot, project: Toy
) -> None:
    decisions = shot.fire(arms=(), control="", by_steps=True, policy_file=steps(project))
    assert [(found.step, found.control, found.candidate) for found in decisions] == [
        ("first", "fts5", "tantivy"),
        ("second", "tantivy", "fts5-porter"),
    ]
    assert [found.outcome for found in decisions] == [Outcome.HOLD] * 2
    assert decisions[1].blocked_by == "first"
    written = json.loads((shot.out / "decision.json").read_text())["datasets"][0]
    assert written["policy"]["name"] == "toy migration"
    assert set(json.loads((shot.out / "scores.json").read_text())) == {
        "fts5", "tantivy", "hash-hybrid", "fts5-porter",
    }  # fmt: skip


def steps(project: Toy) -> Path:
    """Two steps: the first fails, the second passes and waits; a gate names a fourth arm."""
    strict = GATES.replace("floor = 0.6", "floor = 0.999")
    also = strict.replace('rule = "identity"', 'rule = "identity"\nalso = ["hash-hybrid"]')
    second = STEP.replace('candidate = "tantivy"', 'candidate = "fts5-porter"')
    second = second.replace('control = "fts5"', 'control = "tantivy"')
    text = HEAD + STEP.replace('name = "tantivy"', 'name = "first"') + also
    text += second.replace('name = "tantivy"', 'name = "second"') + STRAIGHT
    path = project.root / "steps.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_run_of_another_engine_is_judged_like_an_arm(shot: Shot, tmp_path: Path) -> None:
    shot.fire(arms=("fts5",), control="")
    exported = tmp_path / "other.trec"
    exported.write_bytes((shot.out / "runs" / "fts5.trec").read_bytes())
    (found,) = shot.fire(arms=("tantivy",), runs={"old": exported}, control="old")
    assert (found.control, found.candidate) == ("old", "tantivy")
    identity = next(one for one in found.findings if one.rule == "identity")
    assert identity.verdict is Verdict.INCONCLUSIVE
    assert "old was not verified; its identity is self-reported" in identity.reason
    scores = json.loads((shot.out / "scores.json").read_text(encoding="utf-8"))
    assert set(scores) == {"old", "tantivy"}


Spoil = Callable[[Toy], object]


@pytest.mark.slow
def test_the_decision_fits_its_schema_and_is_read_back(project: Toy) -> None:
    said = project.decide()
    written = json.loads(project.layout.decision.read_text())
    jsonschema.validate(written, schema())
    (read,), decided_at = read_decision(project.layout)
    assert (read.step, read.outcome, read.verdict) == (said.step, said.outcome, said.verdict)
    assert datetime.now(UTC) - decided_at < timedelta(minutes=5)
    about = written["datasets"][0]["provenance"]
    assert datetime.fromisoformat(about["expires_at"]) - decided_at == timedelta(days=2)
    data = json.loads((project.layout.data / "manifest.json").read_text())
    assert about["sha256"] == {kind: data[f"{kind}_sha256"] for kind in about["sha256"]}


@pytest.mark.slow
def test_the_findings_hold_nothing_that_rests_on_a_clock(project: Toy) -> None:
    project.decide()
    first = project.layout.findings.read_bytes()
    project.race()
    project.decide()
    assert project.layout.findings.read_bytes() == first
    (step,) = json.loads(first)["steps"]
    assert "Speed" not in {finding["gate"] for finding in step["findings"]}


@pytest.mark.slow
def test_a_step_that_was_taken_is_rolled_back(project: Toy) -> None:
    own = read_manifest(project.layout, CONTROL).fingerprint
    text = HEAD + STEP.replace("taken = false", f"taken = true\nbaseline = '{own}'")
    project.policy(text + GATES.replace("floor = 0.6", "floor = 0.995"))
    assert project.decide().outcome is Outcome.ROLLBACK


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_decision_that_expired_is_not_shown(project: Toy) -> None:
    project.decide()
    subject = project.project.subject(NAME)
    now = datetime.now(UTC)
    check_decision(project.layout, subject, now=now + timedelta(hours=47))
    says = r"decision\.json: expired: .* 2 days old.*Run: harness gate --dataset toy"
    with pytest.raises(EvidenceError, match=says):
        check_decision(project.layout, subject, now=now + timedelta(hours=49))


FAKE = "#!/bin/sh\necho {name}: $1\n"


@pytest.fixture
def project_ci_script(tmp_path: Path) -> Path:
    begin_project(NewProject(tmp_path / "ours" / "mine", "fts5"))
    return tmp_path / "ours" / "mine"


def fake(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAKE.format(name=name))
    path.chmod(0o755)
    return path


def said(project: Path, **env: str) -> tuple[int, str]:
    env.setdefault("PATH", "/usr/bin:/bin")
    done = subprocess.run(
        [project / "ci.sh"], env=env, capture_output=True, text=True, check=False, cwd="/"
    )
    return done.returncode, done.stdout + done.stderr


def test_a_copy_beside_it_is_the_baseline_unless_one_is_named(project_ci_script: Path) -> None:
    harness = fake(project_ci_script / ".venv" / "bin" / "harness", "venv")
    harness.write_text('#!/bin/sh\necho "$@"\n')
    assert "--baseline" not in said(project_ci_script)[1]
    (project_ci_script / "before").mkdir()
    assert said(project_ci_script)[1].endswith("--inconclusive=warn --baseline before\n")
    assert said(project_ci_script, BASELINE="/b")[1].endswith("--baseline /b\n")
