"""All stages at once, their decision, and a new project."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest
import yaml

from harness.core.errors import EvidenceError, HarnessError, InvalidArm, UnknownName
from harness.core.gate import Outcome, StepDecision, Verdict
from harness.pipeline import init
from harness.pipeline.gate import check_decision, read_decision
from harness.pipeline.imports import load_folder
from harness.pipeline.init import NewProject, begin_project
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import RESULTS, TIES, RunRequest, oneshot
from harness.pipeline.params import read
from harness.policy.load import load_policy
from harness.report.decision import schema
from harness_engines import registry as arms
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.toy import GATES, HEAD, NAME, STEP, WHO, Toy
from tests.source import ROOT


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
    assert shot.told[-2:] == ["scoring and comparing", "judging"]


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
        ({"arms": (), "control": ""}, HarnessError, "no arm is named"),
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
    text += second.replace('name = "tantivy"', 'name = "second"') + WHO
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
    project: Toy, spoil: Callable[[Toy], object], says: str
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


def test_a_copy_beside_it_is_the_baseline_unless_one_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "ours" / "mine"
    begin_project(NewProject(mine, "fts5"))
    harness = mine / ".venv" / "bin" / "harness"
    harness.parent.mkdir(parents=True)
    harness.write_text('#!/bin/sh\necho "$@"\n')
    harness.chmod(0o755)

    def said(**env: str) -> str:
        env["PATH"] = "/usr/bin:/bin"
        return subprocess.check_output([mine / "ci.sh"], env=env, text=True, cwd="/")

    assert "--baseline" not in said()
    (mine / "before").mkdir()
    assert said().endswith("--inconclusive=warn --baseline before\n")
    assert said(BASELINE="/b").endswith("--baseline /b\n")


GITHUB, GITLAB = "acme/search-harness@v1", "acme/tools/search-harness@v1.2"


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    begin_project(NewProject(folder, "tantivy", github=GITHUB, gitlab=GITLAB, dvc=True))
    assert read(folder / "params.yaml").arms == ("tantivy", "engine.py:search")
    for name in ("pairwise", "regress"):
        assert len(load_policy(folder / "policy" / f"{name}.toml").steps) == 1
    script = (folder / "ci.sh").read_text()
    assert "--dataset data --engine engine.py:search --arms tantivy --control tantivy" in script
    assert subprocess.run(["bash", "-n", folder / "ci.sh"], check=False).returncode == 0
    assert (folder / "ci.sh").stat().st_mode & 0o111
    for file in ("README.md", "ci.sh", "params.yaml"):
        text = (folder / file).read_text()
        assert "$control" not in text
        assert "$$" not in text


def test_an_engine_and_data_of_ones_own_are_named_from_the_folder(tmp_path: Path) -> None:
    init.write_sample(tmp_path / "ours")
    (tmp_path / "tools").mkdir()
    wanted = NewProject(
        tmp_path / "eval", engine=f"{tmp_path / 'tools' / 'it.py'}:find", data=tmp_path / "ours"
    )
    assert begin_project(wanted) == (
        ".gitignore", "README.md", "ci.sh", "params.yaml", "policy/regress.toml",
    )  # fmt: skip
    script = (tmp_path / "eval" / "ci.sh").read_text()
    assert "run --dataset ../ours --engine ../tools/it.py:find --out out" in script
    assert "--queries ../ours/queries.jsonl --inconclusive=warn" in script
    assert "--control" not in script
    found = read(tmp_path / "eval" / "params.yaml")
    assert (found.arms, found.policy) == (("../tools/it.py:find",), "policy/regress.toml")


def test_dvc_reads_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "shop").mkdir(parents=True)
    begin_project(NewProject(tmp_path / "eval", engine="shop.search:search", dvc=True))
    (stage,) = yaml.safe_load((tmp_path / "eval" / "dvc.yaml").read_text())["stages"].values()
    assert stage["deps"] == ["data", "../src/shop", "policy", "params.yaml", "ci.sh"]
    assert all((tmp_path / "eval" / one).exists() for one in stage["deps"])


def test_a_folder_that_is_no_repository_keeps_to_itself(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("x")
    for place in (tmp_path, tmp_path / "kept.txt"):
        with pytest.raises(HarnessError, match="already exists"):
            begin_project(NewProject(place, "fts5"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("place", ["acme", "acme/x", "acme@v1", "a/b@v1\nrun: x", "a/b@${{ x }}"])
def test_a_place_that_is_none_leaves_nothing(tmp_path: Path, place: str) -> None:
    with pytest.raises(HarnessError, match="OWNER/REPO@REF"):
        begin_project(NewProject(tmp_path / "mine", github=place))
    assert not (tmp_path / "mine").exists()


def test_no_stage_depends_on_code_that_is_not_there(tmp_path: Path) -> None:
    brought, demo = tmp_path / "packaged", tmp_path / "demo"
    for name in (
        "params.yaml", "dvc.yaml", "datasets/python-docs/card.toml", "policy/migration.toml",
    ):  # fmt: skip
        (brought / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, brought / name)
    init.begin_packaged(brought, demo)
    stages = yaml.safe_load((demo / "dvc.yaml").read_text())["stages"]
    clone = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert list(stages) == list(clone)
    for name, stage in stages.items():
        kept = {dep for dep in clone[name]["deps"] if dep.split("/")[0] not in init.CODE}
        assert stage["deps"].count(init.INSTALLED) == 1
        assert set(stage["deps"]) == {*kept, init.INSTALLED}
        assert stage["cmd"] == clone[name]["cmd"]
    assert "no_scm = true" in (demo / ".dvc" / "config").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("# Ours\n")
    (tmp_path / ".gitignore").write_text("*.log\nout/")
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_repository_keeps_its_files_and_gets_those_of_a_project(repository: Path) -> None:
    made = begin_project(NewProject(repository, github=GITHUB, gitlab=GITLAB))
    assert {init.BESIDE, "ci.sh", "data/corpus.jsonl", init.WORKFLOW, init.INIT_PIPELINE} <= set(
        made
    )
    assert set(made) == {*files(repository)} - {"README.md", ".gitignore"}
    assert (repository / "README.md").read_text() == "# Ours\n"
    assert (repository / ".gitignore").read_text().split() == [
        "*.log", "out/", "before/", ".cache/", ".harness/", "__pycache__/", "*.looks.jsonl",
    ]  # fmt: skip
    assert (repository / "ci.sh").stat().st_mode & 0o111
    workflow = yaml.safe_load((repository / init.WORKFLOW).read_text())
    assert workflow["jobs"]["search"]["steps"][-1] == {"uses": "acme/search-harness/ci/github@v1"}
    (included,) = yaml.safe_load((repository / init.INIT_PIPELINE).read_text())["include"]
    assert "folder" not in included["inputs"]


@pytest.mark.parametrize("others", [(), ("engine.cfg",)])
def test_workflows_stand_at_the_root_and_name_the_folder(
    repository: Path, others: tuple[str, ...]
) -> None:
    folder = repository / "tools" / "my search"
    for name in others:
        folder.mkdir(parents=True)
        (folder / name).write_text("x")
    made = begin_project(NewProject(folder, github=GITHUB, gitlab=GITLAB))
    assert {
        f"../../{init.WORKFLOW}",
        f"../../{init.INIT_PIPELINE}",
        "README.md",
        ".gitignore",
    } <= set(made)
    assert not (folder / ".github").exists()
    step = yaml.safe_load((repository / init.WORKFLOW).read_text())["jobs"]["search"]["steps"][-1]
    assert step["with"] == {"folder": "tools/my search"}
    (included,) = yaml.safe_load((repository / init.INIT_PIPELINE).read_text())["include"]
    assert included["inputs"]["folder"] == "tools/my search"


@pytest.mark.parametrize(
    "name", ["params.yaml", init.INIT_PIPELINE, init.WORKFLOW, "data/corpus.jsonl"]
)
def test_what_is_there_is_named_and_nothing_is_written(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text("ours")
    before = files(repository)
    with pytest.raises(HarnessError, match=r"already exists\. Move it") as told:
        begin_project(NewProject(repository, github=GITHUB, gitlab=GITLAB))
    assert str(repository / name) in str(told.value)
    assert files(repository) == before
