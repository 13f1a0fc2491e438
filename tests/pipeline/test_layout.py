"""Files of a run: layout, evidence, resumed work, reads and plans."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
import yaml

from harness.agreement import Class
from harness.core.batches import processes, using
from harness.core.errors import EvidenceError, HarnessError
from harness.corpus import judgements
from harness.corpus.judgements import Label
from harness.migrate import ledger
from harness.migrate import moves as migrate
from harness.pipeline.evidence import gathered, sides
from harness.pipeline.init import BESIDE, INIT_PIPELINE, WORKFLOW, NewProject, begin_project
from harness.pipeline.layout import File, Layout
from harness.pipeline.pins import BeirFolder, for_control, ground, ground_of_folder
from harness.pipeline.replay import replay
from harness.pipeline.score import score
from harness.policy.load import load_policy
from harness.policy.plan import Raced, plan
from harness.replay import drive
from harness.report import trends
from harness.shadow.divergences import AcceptedDivergence
from harness.shadow.settings import accept
from harness_engines.vector import bulk
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import HashEmbedder
from tests.make.decisions import POLICY, day
from tests.make.toy import ARMS, CANDIDATE, CONTROL, GATES, HEAD, NAME, STEP, Toy
from tests.report.test_trends import entry

LAYOUT = Layout(Path("build/x"), Path("perf/x"), Path(".cache/x"))


def properties() -> dict[str, Path]:
    names = [name for name, kind in vars(Layout).items() if isinstance(kind, File)]
    return {name: getattr(LAYOUT, name) for name in names}


def test_no_two_things_share_a_file() -> None:
    by_arm = (LAYOUT.index, LAYOUT.manifest, LAYOUT.run, LAYOUT.again, LAYOUT.run_receipt)
    named = [*properties().values(), *(of(arm) for of in by_arm for arm in ("a", "b"))]
    assert len(set(named)) == len(named)


PAIRS = {"step": (CONTROL, CANDIDATE)}


def test_evidence_is_of_one_pair_with_the_others_beside(measured: Toy) -> None:
    found = gathered(measured.layout, PAIRS, sides(measured.layout, ARMS), None)["step"]
    assert (found.control.arm, found.candidate.arm) == (CONTROL, CANDIDATE)
    assert set(found.others) == {"hash-hybrid"}
    assert {name: len(ids) for name, ids in found.slices.items()} == {
        "identifier": 11,
        "natural-language": 30,
    }
    assert set(found.noise.classes) == {"exact", "both_empty"}
    assert not found.kinds


def test_a_pair_that_was_not_compared_is_refused(measured: Toy) -> None:
    pairs = {"other": (CONTROL, "hash-hybrid")}
    with pytest.raises(EvidenceError, match="harness stage compare --dataset toy"):
        gathered(measured.layout, pairs, sides(measured.layout, ARMS), None)


def begun(folder: Path) -> None:
    migrate.begin(folder, POLICY, "fts5", now=day(1, 8), by="me")


def decided(folder: Path) -> None:
    trends.add(folder / "toy.jsonl", entry(1))


def switched(folder: Path) -> None:
    ledger.write(folder, "fts5", why="a test")


def accepted(folder: Path) -> None:
    one = AcceptedDivergence.of("why", "Ada", date(2031, 6, 1), kind=Class.TIE_ORDER)
    accept(folder / "accepted.toml", one, today=date(2031, 5, 1))


def labelled(folder: Path) -> None:
    one = Label(query_id="q", doc_id="d", grade=1, kind="person", by="me")
    judgements.write_labels(folder / "labels.jsonl", [one])


@pytest.mark.parametrize(
    ("write", "files"),
    [
        (begun, ("ledger.json", "switch.env")),
        (switched, ("switch.env",)),
        (decided, ("toy.jsonl",)),
        (accepted, ("accepted.toml",)),
        (labelled, ("labels.jsonl",)),
    ],
)
def test_what_is_acknowledged_is_on_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path], None],
    files: tuple[str, ...],
) -> None:
    waited: list[str] = []
    wait = os.fsync

    def fsync(opened: int) -> None:
        waited.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        wait(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path)
    for file in files:
        assert tmp_path.name in waited[waited.index(file) + 1 :]


GITHUB, GITLAB = "acme/search-harness@v1", "acme/tools/search-harness@v1.2"


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
    assert {BESIDE, "ci.sh", "data/corpus.jsonl", WORKFLOW, INIT_PIPELINE} <= set(made)
    assert set(made) == {*files(repository)} - {"README.md", ".gitignore"}
    assert (repository / "README.md").read_text() == "# Ours\n"
    assert (repository / ".gitignore").read_text().split() == [
        "*.log", "out/", "before/", ".cache/", ".harness/", "__pycache__/", "*.looks.jsonl",
    ]  # fmt: skip
    assert (repository / "ci.sh").stat().st_mode & 0o111
    workflow = yaml.safe_load((repository / WORKFLOW).read_text())
    assert workflow["jobs"]["search"]["steps"][-1] == {"uses": "acme/search-harness/ci/github@v1"}
    (included,) = yaml.safe_load((repository / INIT_PIPELINE).read_text())["include"]
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
    assert {f"../../{WORKFLOW}", f"../../{INIT_PIPELINE}", "README.md", ".gitignore"} <= set(made)
    assert not (folder / ".github").exists()
    step = yaml.safe_load((repository / WORKFLOW).read_text())["jobs"]["search"]["steps"][-1]
    assert step["with"] == {"folder": "tools/my search"}
    (included,) = yaml.safe_load((repository / INIT_PIPELINE).read_text())["include"]
    assert included["inputs"]["folder"] == "tools/my search"


@pytest.mark.parametrize("name", ["params.yaml", INIT_PIPELINE, WORKFLOW, "data/corpus.jsonl"])
def test_what_is_there_is_named_and_nothing_is_written(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text("ours")
    before = files(repository)
    with pytest.raises(HarnessError, match=r"already exists\. Move it") as told:
        begin_project(NewProject(repository, github=GITHUB, gitlab=GITLAB))
    assert str(repository / name) in str(told.value)
    assert files(repository) == before


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
    found = ground_of_folder(
        BeirFolder(measured.root / "beir", "test", forms=False), policy, SET_UP
    )
    assert (found.dataset, found.pilots, found.at_hand.race) == ("beir", {}, SET_UP)
    of_stage = ground(measured.layout, policy, SET_UP)
    assert found.inventory == of_stage.inventory
    assert found.at_hand.answerable == of_stage.at_hand.answerable


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


@pytest.mark.slow
def test_what_processes_do_is_what_one_does(
    project: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, params = project.layout, project.params
    texts = [f"text {at} " * (at % 40) for at in range(120)]
    results = [layout.run(arm) for arm in ARMS] + [layout.again(arm) for arm in ARMS]
    results += [layout.per_query, layout.scores, layout.slices, layout.means_plot]

    def made(cache: Path) -> list[bytes]:
        for arm in ARMS:
            replay(layout, arm, project.cache, params.replay)
        score(layout, ARMS, params.score)
        found = [path.read_bytes() for path in results]
        return [*found, embed_all(texts, HashEmbedder(16), cache).tobytes()]

    alone = made(tmp_path / "one")
    monkeypatch.setattr(drive, "PART", 9)
    monkeypatch.setattr(bulk, "PART", 30)
    said: list[str] = []
    with processes(2, tmp_path / "exchanged", said.append) as pool, using(pool):
        monkeypatch.setattr(drive, "observe", None)  # this process runs no query
        assert made(tmp_path / "two") == alone
    assert not said
    assert not (tmp_path / "exchanged").exists()
