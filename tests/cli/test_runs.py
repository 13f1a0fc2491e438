"""A run, the demo and the stages, also killed and on several threads."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL

import pytest

from harness.cli import oneshot
from harness.core.folders import RUN as RUN_TO_KILL
from harness.core.folders import mark
from harness.corpus.runs import read_run, write_run
from harness.pipeline.receipts import LOCK, RECORD, _md5, read_manifest
from harness.trust.reproduce import record
from tests.cli.conftest import Harness
from tests.make.search_server import Served, collection, serving, status
from tests.make.toy import CONTROL, GATES, HEAD, STEP, Toy
from tests.programs import PYTHON, Program

RUN = ("run", "--arms", "fts5, tantivy", "--out", "out")


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["toy", "beir"])
def test_a_data_set_by_name_or_by_folder(project: Toy, harness: Harness, dataset: str) -> None:
    said = harness(*RUN, "--dataset", dataset, "--control", "fts5", "--exit-code")
    assert said.code == 0
    assert f"\n{dataset}\n  tantivy    PROMOTE  fts5 -> tantivy\n" in said.out
    assert "The page: out/index.html" in said.out
    assert "indexing fts5 ..." in said.err
    scores = json.loads((project.root / "out" / "scores.json").read_text())
    expected = json.loads(project.layout.scores.read_text())
    assert scores == {arm: expected[arm] for arm in ("fts5", "tantivy")}


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [((), 0), (("--exit-code",), 1)])
def test_the_verdict_is_an_exit_code_where_it_is_asked_for(
    project: Toy, harness: Harness, words: tuple[str, ...], code: int
) -> None:
    (project.root / "strict.toml").write_text(
        HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.999")
    )
    chosen = ("--dataset", "toy", "--control", "fts5", "--policy", "strict.toml")
    assert harness(*RUN, *chosen, *words).code == code


@pytest.mark.slow
def test_without_a_control_there_is_a_leaderboard(project: Toy, harness: Harness) -> None:
    said = harness(*RUN, "--dataset", "toy", "--exit-code")
    assert said.code == 0
    assert "nDCG@10" in said.out
    assert not (project.root / "out" / "decision.json").exists()


REPRO = ("repro", "--no-run-cache")


@pytest.mark.parametrize("other", [False, True], ids=["the same", "another"])
def test_the_record_is_compared_with_and_the_verdict_comes_last(
    project: Toy, monkeypatch: pytest.MonkeyPatch, harness: Harness, *, other: bool
) -> None:
    """The first command that a newcomer typed changed tracked files, and did not say why."""
    root, run = project.root, project.layout.run("tantivy")
    project.decide()
    monkeypatch.setattr(oneshot, "_stale", lambda _: "")
    lock = {"stages": {"replay@toy": {"deps": [], "outs": [{
        "path": run.relative_to(root).as_posix(), "md5": _md5(run),
    }]}}}  # fmt: skip
    (root / LOCK).write_text(json.dumps(lock))
    record(root, project.layout)
    tracked = {path: path.read_bytes() for path in [root / LOCK, *(root / RECORD).rglob("*.*")]}

    def dvc(_: object, *words: str) -> str:
        if words == REPRO:
            (root / LOCK).write_text("made here")
            if other:
                write_run(replace(read_run(project.layout.run("fts5")), arm="tantivy"), run)
        return oneshot.NOTHING_DONE

    monkeypatch.setattr(oneshot, "_dvc", dvc)
    said = harness("demo")
    assert said.code == 0, said
    before, _, after = said.out.partition("The page: ")
    if other:
        assert "toy: 1 of 1 recorded outputs differ; every verdict is the same" in before
        assert "differs   replay@toy: build/toy/runs/tantivy.parquet" in before
    else:
        assert "toy: all 1 recorded outputs are byte-identical\n" in before
    assert after.endswith("toy\n  tantivy    PROMOTE  fts5 -> tantivy\n")
    assert {path: path.read_bytes() for path in tracked} == tracked
    assert {*(root / RECORD).rglob("*.*")} == tracked.keys() - {root / LOCK}


SECOND = STEP.replace('name = "tantivy"', 'name = "hybrid"').replace(
    'candidate = "tantivy"', 'candidate = "hash-hybrid"'
)
ONE_GATE = '\n[[step.gate]]\nname = "Who answers"\nrule = "identity"\n'
UNSURE = GATES.replace("margin = 0.15", "margin = 0.15\nslice = 'identifier'")
FAILS = GATES.replace("floor = 0.6", "floor = 0.999")


@pytest.mark.slow
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
        assert words[0] != "race" or "the machine was quiet" in said.out
    assert (project.root / "reports" / "index.html").is_file()
    assert json.loads(project.layout.decision.read_text())["summary"]["verdict"] == "pass"


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_step_that_is_named_decides_the_code_alone(project: Toy, harness: Harness) -> None:
    project.untimed()
    project.policy(HEAD + STEP + FAILS + SECOND + ONE_GATE)
    project.judge_again()
    assert harness("gate").code == 1
    said = harness("gate", "--step", "hybrid")
    assert said.code == 3
    assert "waits for the step tantivy" in said.out


@pytest.mark.slow
def test_a_bad_input_is_two_and_leaves_no_decision(project: Toy, harness: Harness) -> None:
    assert harness("gate").code == 0
    project.layout.run("tantivy").unlink()
    assert "tantivy.parquet: is gone" in harness("gate").error
    assert not project.layout.decision.exists()


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


def mine(folder: Path, served: Served, **changed: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(served.toml(**changed), encoding="utf-8")
    return path


def run(folder: Path, arm: Path) -> list[str | Path]:
    data = collection(folder / "theirs")
    return ["run", "--dataset", data, "--arms", f"fts5,{arm}", "--control", "fts5", "--out",
            folder / "out"]  # fmt: skip


def test_a_run_judges_a_server_and_tells_its_retries(
    served: Served, harness: Harness, tmp_path: Path
) -> None:
    served.faults = [status(503, Retry_After="0"), status(429, Retry_After="0")]
    said = harness(*run(tmp_path, mine(tmp_path, served)))
    assert said.code == 0, said.err
    assert "mine: 2 attempts failed and were repeated; their time is in the latencies" in said.err
    assert json.loads((tmp_path / "out" / "decision.json").read_text("utf-8"))
    kept = [read_run(path).retries for path in (tmp_path / "out").rglob("runs/mine.parquet")]
    assert set(kept) == {2}
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "2 attempts repeated, 1 of them rate-limited" in page
    decided = json.loads((tmp_path / "out" / "decision.json").read_text("utf-8"))
    assert "2 attempts repeated, 1 of them rate-limited" in json.dumps(decided)


SLOW = '''
"""The stack fts5, so slow that it can be killed where a test wants it."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

from harness_engines import contract as manifest
from harness_engines.stacks.text import fts5
from harness.core.engine import Answer

SETTINGS = {"tokenize": "unicode61", "title_weight": 2.0, "text_weight": 1.0, "joined": "both"}
DIES = Path(__file__).with_name("dies")


def die_while(doing):
    if DIES.exists() and DIES.read_text() == doing:
        os.kill(os.getpid(), signal.SIGKILL)


class Searcher:
    def __init__(self, inner):
        self.inner = inner
        self.manifest = inner.manifest
        self.asked = 0

    def search(self, text, k):
        self.asked += 1
        if self.asked == 30:
            die_while("replaying")
        return self.inner.search(text, k)


class Engine:
    def __init__(self, inner):
        self.inner = inner

    def build(self, documents, index):
        with DIES.with_name("built").open("a") as built:
            built.write("x")
        made = self.inner.build(documents, index)
        die_while("indexing")
        return made

    @contextmanager
    def open(self, index):
        with self.inner.open(index) as searcher:
            yield Searcher(searcher)


def engine(settings, cache):
    return Engine(fts5.engine(SETTINGS, cache))
'''


def words(arm: Path, out: Path) -> tuple[str | Path, ...]:
    return "run", "--dataset", "toy", "--arms", arm, "--out", out


def in_a_process(project: Toy, *words: str | Path) -> int:
    """Run a command; give how it ended."""
    with Program([*PYTHON, *words], cwd=project.root, stdout=DEVNULL, stderr=DEVNULL) as process:
        return process.wait()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("doing", ["indexing", "replaying"])
def test_a_killed_run_goes_on(project: Toy, harness: Harness, tmp_path: Path, doing: str) -> None:
    arm = tmp_path / "slow.toml"
    arm.write_text('summary = "fts5, killed"\nstack = "slow.py"\n')
    arm.with_suffix(".py").write_text(SLOW)
    (tmp_path / "dies").write_text(doing)
    out = tmp_path / "out"
    killed = in_a_process(project, *words(arm, out))
    assert killed == -signal.SIGKILL
    assert [path.name for path in out.glob("[!.]*.*")] == [mark(out, RUN_TO_KILL).name]
    assert not list(out.rglob("slow.parquet"))
    assert (out / "work" / "cache" / "index" / "slow").exists() == (doing == "replaying")
    (tmp_path / "dies").unlink()
    done = harness(*words(arm, out))
    assert list(out.rglob("slow.parquet"))
    assert done.code == 0, done.err
    means = json.loads((out / "scores.json").read_text())
    straight = json.loads(project.layout.scores.read_text())
    assert means["slow"] == straight["fts5"]
    assert set(means) == {"slow"}
    assert [path.name for path in out.rglob(".*")] == []
    assert [path.name for path in out.rglob("*.partial")] == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_files_that_a_power_loss_emptied_are_made_again(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    """One of them made the same command fail for ever, with a remedy for something else."""
    (tmp_path / "slow.py").write_text(SLOW)
    arm, out = tmp_path / "slow.toml", tmp_path / "out"
    arm.write_text('summary = "fts5, emptied"\nstack = "slow.py"\n')
    assert harness(*words(arm, out)).code == 0
    scores = (out / "scores.json").read_bytes()
    for doing in ("", "replaying"):
        (tmp_path / "dies").write_text(doing)
        assert in_a_process(project, *words(arm, out)) == (-signal.SIGKILL if doing else 0)
        (tmp_path / "dies").unlink()
        for path in out.rglob("*"):
            if path.is_file():
                os.truncate(path, 0)
        assert harness(*words(arm, out)).code == 0
        assert (out / "scores.json").read_bytes() == scores


@pytest.mark.slow
@pytest.mark.whole("test_a_killed_run_goes_on")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_an_engine_that_was_finished_is_not_indexed_again(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.toml").write_text('summary = "fts5"\nstack = "slow.py"\n')
        (tmp_path / name / "slow.py").write_text(SLOW)
    (tmp_path / "second" / "dies").write_text("replaying")
    arms = ",".join(str(tmp_path / name / f"{name}.toml") for name in ("first", "second"))
    words = ("run", "--dataset", "toy", "--arms", arms, "--out", tmp_path / "out")

    def built() -> list[int]:
        return [len((tmp_path / name / "built").read_text()) for name in ("first", "second")]

    killed = in_a_process(project, *words)
    assert killed == -signal.SIGKILL
    assert built() == [1, 1]
    (tmp_path / "second" / "dies").unlink()
    done = harness(*words)
    assert done.code == 0, done.err
    assert built() == [1, 1]
    assert done.err.count("indexed before") == 2
    assert harness(*words).code == 0
    assert built() == [2, 2]
    (tmp_path / "second" / "dies").write_text("replaying")
    assert in_a_process(project, *words) == -signal.SIGKILL
    (tmp_path / "second" / "dies").unlink()
    slow = tmp_path / "first" / "slow.py"
    slow.write_text(slow.read_text() + "# changed\n")
    assert harness(*words).code == 0
    assert built() == [4, 3]
