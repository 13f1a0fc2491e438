"""A run, the demo and the stages, also killed and on several threads."""

import json
import os
import signal
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
from tests.cli import broken_engine
from tests.cli.conftest import Harness
from tests.make.search_server import collection, serving, status
from tests.make.toy import CONTROL, FAILS, GATES, HEAD, STEP, UNSURE, Toy
from tests.programs import PYTHON, Program

pytestmark = pytest.mark.slow
RUN = ("run", "--arms", "fts5, tantivy", "--out", "out")


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


STRICT = ("--control", "fts5", "--policy", "strict.toml")


@pytest.mark.parametrize(
    ("words", "code"), [(STRICT, 0), ((*STRICT, "--exit-code"), 1), (("--exit-code",), 0)]
)
def test_the_verdict_is_an_exit_code_where_it_is_asked_for(
    project: Toy, harness: Harness, words: tuple[str, ...], code: int
) -> None:
    """Without a control there is a leaderboard, and no verdict."""
    (project.root / "strict.toml").write_text(HEAD + STEP + FAILS)
    said = harness(*RUN, "--dataset", "toy", *words)
    assert said.code == code
    assert "nDCG@10" in said.out
    assert (project.root / "out" / "decision.json").exists() == ("--control" in words)


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


def test_a_run_judges_a_server_and_tells_its_retries(project: Toy, harness: Harness) -> None:
    root, out = project.root, project.root / "out"
    words = ("run", "--dataset", collection(root / "theirs"), "--control", "fts5", "--out", "out")
    with serving() as served:
        served.faults = [status(503, Retry_After="0"), status(429, Retry_After="0")]
        (root / "mine.toml").write_text(served.toml(), encoding="utf-8")
        said = harness(*words, "--arms", "fts5,mine.toml")
    assert said.code == 0, said.err
    assert "mine: 2 attempts failed and were repeated; their time is in the latencies" in said.err
    kept = [read_run(path).retries for path in out.rglob("runs/mine.parquet")]
    assert set(kept) == {2}
    for name in ("index.html", "decision.json"):
        assert "2 attempts repeated, 1 of them rate-limited" in (out / name).read_text("utf-8")


def words(*arms: Path) -> list[str]:
    return ["run", "--dataset", "toy", "--arms", ",".join(map(str, arms)), "--out", "out"]


def killed(project: Toy, arm: Path, moment: str, *words: str) -> None:
    """Run a command whose engine is killed at a moment."""
    dies = arm.with_name("dies")
    dies.write_text(moment)
    with Program([*PYTHON, *words], cwd=project.root, stdout=DEVNULL, stderr=DEVNULL) as process:
        assert process.wait() == -signal.SIGKILL
    dies.unlink()


@pytest.mark.sampled(2)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("moment", "emptied"),
    [("built", False), ("search 30", False), ("", True), ("search 30", True)],
)
def test_a_killed_run_goes_on(
    project: Toy, harness: Harness, moment: str, *, emptied: bool
) -> None:
    """A file that a power loss emptied made it fail for ever, with a remedy for something else."""
    out, arm = project.root / "out", broken_engine.write(project.root / "broken", weight=2.0)
    if moment:
        killed(project, arm, moment, *words(arm))
        assert [path.name for path in out.glob("[!.]*.*")] == [mark(out, RUN_TO_KILL).name]
        assert not list(out.rglob("own.parquet"))
        assert (out / "work" / "cache" / "index" / "own").exists() == (moment != "built")
    else:
        assert harness(*words(arm)).code == 0
    for path in out.rglob("*") if emptied else ():
        if path.is_file():
            os.truncate(path, 0)
    done = harness(*words(arm))
    assert done.code == 0, done.err
    assert list(out.rglob("own.parquet"))
    straight = json.loads(project.layout.scores.read_text())
    assert json.loads((out / "scores.json").read_text()) == {"own": straight["fts5"]}
    assert [path.name for path in (*out.rglob(".*"), *out.rglob("*.partial"))] == []


@pytest.mark.whole("test_a_killed_run_goes_on")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_an_engine_that_was_finished_is_not_indexed_again(project: Toy, harness: Harness) -> None:
    first, second = (
        broken_engine.write(project.root / name).rename(project.root / name / f"{name}.toml")
        for name in ("first", "second")
    )
    both = words(first, second)

    def built() -> list[int]:
        return [len(arm.with_name("built").read_text()) for arm in (first, second)]

    killed(project, second, "search 30", *both)
    assert built() == [1, 1]
    done = harness(*both)
    assert done.code == 0, done.err
    assert built() == [1, 1]
    assert done.err.count("indexed before") == 2
    assert harness(*both).code == 0
    assert built() == [2, 2]
    killed(project, second, "search 30", *both)
    code = first.with_name("own.py")
    code.write_text(code.read_text() + "# changed\n")
    assert harness(*both).code == 0
    assert built() == [4, 3]
