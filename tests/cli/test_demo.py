"""The main job asks DVC, with or without git, and makes again what DVC does not track."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import typer

from harness.cli import oneshot
from harness.corpus.runs import read_run, write_run
from harness.pipeline.dvc import LOCK, RECORD, _md5
from harness.pipeline.receipts import note_replayed
from harness.trust.reproduce import record
from tests.cli.conftest import Harness
from tests.make.toy import Toy

REPRO = ("repro", "--no-run-cache")


@pytest.fixture
def asked(project: Toy, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Note what DVC is asked, and let it do nothing."""
    project.decide()
    (project.root / "reports").mkdir()
    (project.root / "reports" / "index.html").write_text("a page")
    heard: list[tuple[str, ...]] = []

    def dvc(_: object, *words: str) -> str:
        heard.append(words)
        return oneshot.NOTHING_DONE if words == REPRO else ""

    monkeypatch.setattr(oneshot, "_dvc", dvc)
    return heard


def test_the_decision_is_printed(asked: list[tuple[str, ...]], harness: Harness) -> None:
    said = harness("demo")
    assert said.code == 0
    assert "tantivy    PROMOTE  fts5 -> tantivy" in said.out
    assert "Nothing to do: everything is up to date." in said.out
    assert "reports/index.html" in said.out
    assert REPRO in asked


def test_without_git_dvc_is_told_so(
    project: Toy, asked: list[tuple[str, ...]], harness: Harness
) -> None:
    harness("demo")
    assert asked[0] == ("config", "--local", "core.no_scm", "true")
    asked.clear()
    (project.root / ".git").mkdir()
    harness("demo")
    assert asked == [REPRO]


@pytest.mark.parametrize("name", ["times", "decision_receipt"])
def test_what_dvc_does_not_track_is_made_again(
    project: Toy, asked: list[tuple[str, ...]], harness: Harness, name: str
) -> None:
    getattr(project.layout, name).unlink()
    said = harness("demo")
    assert asked[-1] == (*REPRO, "--force", "--downstream", "race")
    assert "Nothing to do" not in said.out


@pytest.mark.parametrize("days", [None, 3])
def test_runs_that_nobody_knows_the_age_of_are_made_again(
    project: Toy, asked: list[tuple[str, ...]], harness: Harness, days: int | None
) -> None:
    note = project.layout.replayed("hash-hybrid")
    note.unlink()
    if days:
        note_replayed(project.layout, "hash-hybrid", datetime.now(UTC) - timedelta(days=days))
    said = harness("demo")
    assert asked[-1] == (*REPRO, "--force", "--downstream", "replay")
    assert "Nothing to do" not in said.out


@pytest.mark.parametrize(("code", "leaves"), [(0, None), (1, 2)])
def test_a_pipeline_that_fails_is_no_success(
    project: Toy, monkeypatch: pytest.MonkeyPatch, code: int, leaves: int | None
) -> None:
    class Fake(subprocess.Popen[str]):
        def __init__(self, command: list[str], **settings: object) -> None:
            assert command[:3] == [sys.executable, "-m", "dvc"]
            script = f"print('stage failed'); raise SystemExit({code})"
            super().__init__([sys.executable, "-c", script], **settings)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", Fake)
    if leaves is None:
        assert oneshot._dvc(project.root, "repro") == "stage failed\n"  # noqa: SLF001
    else:
        with pytest.raises(typer.Exit) as left:
            oneshot._dvc(project.root, "repro")  # noqa: SLF001
        assert left.value.exit_code == leaves


@pytest.mark.parametrize("other", [False, True], ids=["the same", "another"])
def test_the_record_is_compared_with_and_the_verdict_comes_last(
    project: Toy, monkeypatch: pytest.MonkeyPatch, harness: Harness, *, other: bool
) -> None:
    """The first command that a newcomer typed changed tracked files, and did not say why."""
    root, run = project.root, project.layout.run("tantivy")
    project.decide()
    monkeypatch.setattr(oneshot, "_side_files", lambda _: [True])
    lock = {"stages": {"replay@toy": {"deps": [], "outs": [{
        "path": run.relative_to(root).as_posix(), "md5": _md5(run),
    }]}}}  # fmt: skip
    (root / LOCK).write_text(json.dumps(lock))
    record(root, project.layout, project.params.arms)
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
        assert "first ten tantivy: " in before
        assert "differs   replay@toy: build/toy/runs/tantivy.parquet" in before
    else:
        assert "toy: all 1 recorded outputs are byte-identical\n" in before
    assert after.endswith("toy\n  tantivy    PROMOTE  fts5 -> tantivy\n")
    assert {path: path.read_bytes() for path in tracked} == tracked
    assert {*(root / RECORD).rglob("*.*")} == tracked.keys() - {root / LOCK}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Running stage 'gate@toy':", True),
        ("> harness gate --dataset toy", True),
        ("To track the changes with git, run:", False),
        ("\tgit add dvc.lock", False),
        ("To enable auto staging, run:", False),
        ("\tdvc config core.autostage true", False),
        ("Use `dvc push` to send your updates to remote storage.", False),
    ],
)
def test_what_dvc_advises_is_left_out(line: str, shown: bool) -> None:  # noqa: FBT001  a parameter
    assert (oneshot.HINTS.search(line) is None) == shown
