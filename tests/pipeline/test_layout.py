"""Files of a run: layout, evidence, resumed work, reads and plans."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from harness.agreement import Class
from harness.core import digest
from harness.core.batches import processes, using
from harness.core.errors import BadFile, EvidenceError, HarnessError, InvalidArm
from harness.core.store import Artifact
from harness.corpus import beir, judgements, runs
from harness.corpus.judgements import JudgingPair, Label, Pool
from harness.migrate import ledger
from harness.migrate import moves as migrate
from harness.pipeline import evidence, receipts, report_inputs
from harness.pipeline import replay as stages_replay
from harness.pipeline.evidence import gathered, pairs_of, sides
from harness.pipeline.init import BESIDE, INIT_PIPELINE, WORKFLOW, NewProject, added, begin_project
from harness.pipeline.layout import File, Layout, drop_older
from harness.pipeline.pins import BeirFolder
from harness.pipeline.plan import for_control, ground, ground_of_folder
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import OpenedIndex, replay
from harness.pipeline.score import score
from harness.policy.load import load_policy
from harness.policy.plan import Raced, plan
from harness.replay import drive
from harness.report import trends
from harness.shadow.divergences import AcceptedDivergence
from harness.shadow.settings import accept
from harness_engines import registry
from harness_engines.vector import bulk
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import HashEmbedder
from tests import cold
from tests.make.decisions import POLICY, day
from tests.make.toy import ARMS, CANDIDATE, CONTROL, GATES, HEAD, NAME, STEP, Toy
from tests.pipeline.test_oneshot import Shot
from tests.report.test_trends import entry

LAYOUT = Layout(Path("build/x"), Path("perf/x"), Path(".cache/x"))


def properties() -> dict[str, Path]:
    names = [name for name, kind in vars(Layout).items() if isinstance(kind, File)]
    return {name: getattr(LAYOUT, name) for name in names}


def test_no_two_things_share_a_file() -> None:
    by_arm = (LAYOUT.index, LAYOUT.manifest, LAYOUT.run, LAYOUT.again, LAYOUT.run_receipt)
    named = [*properties().values(), *(of(arm) for of in by_arm for arm in ("a", "b"))]
    assert len(set(named)) == len(named)


def test_what_rests_on_a_clock_is_not_among_the_tracked() -> None:
    timed = {name for name, path in properties().items() if path.is_relative_to(LAYOUT.today)}
    assert timed == {
        "times",
        "decision",
        "junit",
        "decision_receipt",
        "signature",
        "replays",
        "experiments",
        "log",
        "log_link",
    }
    others = set(properties().values()) - {
        properties()[name] for name in (*timed, "race_parts", "score_parts")
    }
    assert all(path.is_relative_to(LAYOUT.root) for path in others)


def test_indexes_and_parts_are_caches() -> None:
    assert LAYOUT.index("a").is_relative_to(LAYOUT.cache)
    assert LAYOUT.parts("a").is_relative_to(LAYOUT.cache)
    assert LAYOUT.race_parts.is_relative_to(LAYOUT.cache)
    assert LAYOUT.manifest("a").is_relative_to(LAYOUT.root)


PAIRS = {"step": (CONTROL, CANDIDATE)}


def test_a_side_is_an_arm_as_it_was_measured(measured: Toy) -> None:
    found = sides(measured.layout, ARMS)
    for arm in ARMS:
        assert found[arm].run.arm == arm
        assert set(found[arm].run.served_by) == {found[arm].manifest.fingerprint}
        assert set(found[arm].scores) == set(measured.params.score.measures)


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


def test_the_steps_of_a_policy_are_its_pairs(measured: Toy) -> None:
    assert pairs_of(measured.project.policy()) == {"tantivy": (CONTROL, CANDIDATE)}


def test_a_pair_that_was_not_compared_is_refused(measured: Toy) -> None:
    pairs = {"other": (CONTROL, "hash-hybrid")}
    with pytest.raises(EvidenceError, match="harness stage compare --dataset toy"):
        gathered(measured.layout, pairs, sides(measured.layout, ARMS), None)


def test_a_pair_the_other_way_round_was_not_compared(project: Toy) -> None:
    pairs = {"back": (CANDIDATE, CONTROL)}
    with pytest.raises(EvidenceError, match=r"does not list .*tantivy\.again\.parquet"):
        gathered(project.layout, pairs, sides(project.layout, ARMS), None)


def test_what_is_older_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name, hours in (("young", 0.5), ("old", 1.5)):
        path = tmp_path / name
        path.write_text(name)
        then = time.time() - hours * 3600
        os.utime(path, (then, then))
    drop_older(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["young"]
    drop_older(tmp_path / "absent", 1)


PAIR = JudgingPair(
    query_id="q", doc_id="d", query="", title="", snippet="", narrows=0.1, scale=(0, 1)
)


def begun(folder: Path) -> None:
    migrate.begin(folder, POLICY, "fts5", now=day(1, 8), by="me")


def accepted(folder: Path) -> None:
    one = AcceptedDivergence.of("why", "Ada", date(2031, 6, 1), kind=Class.TIE_ORDER)
    accept(folder / "accepted.toml", one, today=date(2031, 5, 1))


def judged(folder: Path) -> None:
    judgements.write_grades(folder / "pool.qrels", Pool((PAIR,), (1,)))


def labelled(folder: Path) -> None:
    one = Label(query_id="q", doc_id="d", grade=1, kind="person", by="me")
    judgements.write_labels(folder / "labels.jsonl", [one])


def switched(folder: Path) -> None:
    ledger.write(folder, "fts5", why="a test")


def decided(folder: Path) -> None:
    trends.add(folder / "toy.jsonl", entry(1))


WRITERS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "a migration": (begun, ("ledger.json", "switch.env")),
    "a switch": (switched, ("switch.env",)),
    "a pool": (judged, ("pool.qrels",)),
    "labels": (labelled, ("labels.jsonl",)),
    "a history": (decided, ("toy.jsonl",)),
    "accepted divergences": (accepted, ("accepted.toml",)),
}


class Waits(NamedTuple):
    """What was waited for, in order: names of files and folders."""

    names: list[str]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    found, wait = Waits([]), os.fsync

    def fsync(opened: int) -> None:
        found.names.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        wait(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path, waits: Waits, writer: str) -> None:
    write, files = WRITERS[writer]
    write(tmp_path)
    for file in files:
        assert (tmp_path / file).is_file()
        at = waits.names.index(file)
        assert tmp_path.name in waits.names[at + 1 :]


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


def test_what_was_added_is_gone_where_a_later_step_fails(repository: Path) -> None:
    before = files(repository)
    content = {repository / "a" / "b" / "one": b"1", repository / "two": b"#!/bin/sh"}
    with pytest.raises(OSError, match="full"), added(content):
        raise OSError("full")
    assert files(repository) == before
    assert not (repository / "a").exists()


def test_a_workflow_that_is_there_leaves_no_new_folder(repository: Path) -> None:
    (repository / INIT_PIPELINE).write_text("ours")
    with pytest.raises(HarnessError, match="already exists"):
        begin_project(NewProject(repository / "mine", "fts5", gitlab=GITLAB))
    assert not (repository / "mine").exists()


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


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count calls by what they read."""
    calls: Counter[str] = Counter()

    def watch(module: Any, name: str, told: Callable[[Path], str]) -> None:  # noqa: ANN401  a module
        real = getattr(module, name)

        def seen(first: Any, *args: Any, **how: Any) -> Any:  # noqa: ANN401  as the real one
            calls[told(first)] += 1
            return real(first, *args, **how)

        monkeypatch.setattr(module, name, seen)

    watch(runs, "table_of", lambda path: path.name)
    monkeypatch.setattr(Artifact, "write", cold.handing_on)
    watch(digest, "_of_bytes_in", lambda _: "digest")
    monkeypatch.setattr(digest, "SETTLED_NS", 0)  # a toy's files are younger on a quick machine
    watch(receipts, "_read", lambda path: path.name)
    watch(beir, "queries", lambda path: f"{path.parent.name}/{path.name}")
    watch(report_inputs, "latency", lambda _: "latency")
    for name in ("sides", "gathered", "read_race"):
        watch(evidence, name, lambda _, name=name: name)  # type: ignore[misc]
    return calls


@pytest.mark.slow
def test_evidence_is_read_once(project: Toy, tmp_path: Path, counted: Counter[str]) -> None:
    """What a stage wrote, the next ones of the same process do not read."""
    Shot(project, tmp_path / "out").fire(arms=("fts5", "tantivy"), timed=True)
    assert [counted[what] for what in ("sides", "gathered", "read_race", "latency")] == [1] * 4
    names = ("fts5", "tantivy", "fts5.again", "per_query", "agreement", "classes")
    assert [counted[f"{name}.parquet"] for name in names] == [0] * len(names)
    assert counted["data/queries.jsonl"] <= 1
    assert counted["digest"] <= 20  # 14 to 16, most of them files of the two indexes; 117 unknown
    receipts = sum(count for name, count in counted.items() if name.endswith("receipt.json"))
    assert receipts == 11


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


@pytest.mark.slow
def test_an_index_is_opened_once_and_another_one_is_refused(measured: Toy) -> None:
    layout = measured.layout
    wanted = read_manifest(layout, "fts5")
    path = registry.path_of("fts5")
    index = OpenedIndex.of(layout, path, measured.cache, wanted)
    with index() as first, index() as again:
        assert first is again
    other = OpenedIndex.of(layout, path, measured.cache, read_manifest(layout, "tantivy"))
    with pytest.raises(InvalidArm, match="is not the index"), other():
        pass
    with index() as anew:
        assert anew is not first
    stages_replay.close()
