"""How commands end: nothing but a verdict ends by 1, and every failure says what it is."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn
from unittest import mock

import pytest
import typer

from harness.cli import exit_codes
from harness.cli.exit_codes import PIPED, ended
from harness.core.errors import HarnessError
from harness.core.files import NO_ROOM, replacing
from harness.pipeline.receipts import read_manifest
from tests.cli import broken_engine
from tests.cli.broken_engine import ENDLESS, FAILURES, MOMENTS, stamped
from tests.cli.conftest import Harness
from tests.docs.pages import ROOT
from tests.make.toy import Toy
from tests.programs import PYTHON, Program

pytestmark = pytest.mark.slow
ASK = ("ask", "--dataset", "toy", "balo", "--json", "--arm")
NOISY = """
import os, subprocess, sys
print("loading a model")
sys.stdout.write("written\\n")
os.write(1, b"by a library\\n")
subprocess.run(["echo", "by a program"])
"""
SLOW = """
import sys, time
print("ready", file=sys.stderr, flush=True)
time.sleep(60)
"""


@pytest.fixture
def broken(project: Toy, harness: Harness) -> Callable[[str, str], Path]:
    """Index the engine while it is whole, and break it then."""

    def make(moment: str, how: str) -> Path:
        arm = broken_engine.write(project.root / "broken")
        assert harness("stage", "index", "--dataset", "toy", "--arm", arm).code == 0
        assert harness("stage", "replay", "--dataset", "toy", "--arm", arm).code == 0
        broken_engine.write(project.root / "broken", moment, how)
        stamped(project.layout.index("own"), arm)
        return arm

    return make


@pytest.mark.sampled
@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("moment", MOMENTS[:4])
def test_an_engine_that_fails_in_a_run_is_named(
    project: Toy, harness: Harness, moment: str, how: str
) -> None:
    arm = broken_engine.write(project.root / "broken", moment, FAILURES[how])
    words = ("run", "--dataset", "toy", "--arms", f"fts5,{arm}", "--control", "fts5")
    said = harness(*words, "--out", "out", "--exit-code").error
    if (moment, how) == ("build", "OSError"):
        assert "index/own: it cannot be used (No space left on device)" in said
        assert NO_ROOM in said
    else:
        assert said.startswith("own: ")
        assert "own.py" in said or "its index" in said or "its engine" in said
    assert "\x1b" not in said
    assert not (project.root / "out" / "decision.json").exists()


def test_an_engine_that_is_no_python_is_named_with_its_line(project: Toy, harness: Harness) -> None:
    arm = broken_engine.spoken(project.root / "broken", "def engine(settings, cache:\n    pass\n")
    said = harness("stage", "index", "--dataset", "toy", "--arm", arm).error
    assert "own: " in said
    assert "own.py cannot be imported: SyntaxError: " in said
    assert "line 1" in said


@pytest.mark.parametrize("how", FAILURES)
def test_an_engine_that_fails_while_it_is_asked_ends_by_two(
    broken: Callable[[str, str], Path], harness: Harness, how: str
) -> None:
    arm = broken("search", FAILURES[how])
    for words in (("stage", "replay", "--dataset", "toy", "--arm", arm), (*ASK, arm)):
        said = harness(*words)
        assert said.code == 2, (words, said)
        assert said.err.splitlines()[-1].startswith("error: "), said


@pytest.mark.sampled(1)
@pytest.mark.parametrize("moment", ["open", "search", "stages"])
def test_an_engine_that_leaves_is_no_verdict_in_any_command(
    broken: Callable[[str, str], Path], harness: Harness, moment: str
) -> None:
    arm = broken(moment, "raise SystemExit(1)")
    pair = ("--dataset", "toy", "--control", "fts5", "--candidate", str(arm))
    settings = ("--shadow-settings", ROOT / "policy" / "shadow.toml")
    commands: dict[str, tuple[str | Path, ...]] = {
        "ask": (*ASK, arm),
        "decompose": ("decompose", *pair),
        "load": ("load", "--dataset", "toy", "--arm", arm, "--rate", "50"),
        "replay": ("stage", "replay", "--dataset", "toy", "--arm", arm),
        "shadow run": ("shadow", "run", *pair, "--out", "log", "--count", "2", *settings),
    }
    for name, words in commands.items():
        assert harness(*words).code != 1, name


def test_hits_that_never_end_are_a_failure_and_no_wait(
    broken: Callable[[str, str], Path], project: Toy, harness: Harness
) -> None:
    arm = broken(ENDLESS, "pass")
    assert "hits are a repeat instead of a tuple" in harness(*ASK, arm).error
    said = harness("stage", "replay", "--dataset", "toy", "--arm", arm).error
    assert "own: not one of 41 queries was answered" in said
    assert read_manifest(project.layout, "own").documents == 60


@pytest.mark.parametrize("raised", [BrokenPipeError(32, "Broken pipe"), MemoryError(), OSError(),
                                    RuntimeError("x" * 10_000), HarnessError("\x1b[2Jgone\n"),
                                    SystemExit("in words"), typer.Abort(), KeyboardInterrupt(),
                                    GeneratorExit()])  # fmt: skip
def test_whatever_is_raised_is_one_line_and_no_verdict(
    raised: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> NoReturn:
        raise raised

    interrupt = isinstance(raised, KeyboardInterrupt | typer.Abort)
    piped = isinstance(raised, BrokenPipeError)
    assert ended(fails) == (130 if interrupt else PIPED if piped else 2)
    if piped:
        assert capsys.readouterr().err == ""
        return
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("interrupted; " if interrupt else "error: ")
    assert len(line) < 500
    assert "\x1b" not in line


def test_what_is_no_python_is_told_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> NoReturn:
        raise SyntaxError("invalid syntax", ("mine/own.py", 7, 1, "def", 7, 2))

    assert ended(fails) == 2
    assert "(own.py:7)" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "euc-jp", "utf-8"])
def test_an_output_of_another_encoding_takes_every_character(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``shadow watch`` ended by 2 at a minus sign, where the system has no known language."""
    raw, said = io.BytesIO(), ["\u2212 5 %", "\U0001f600", "a"]
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    assert ended(lambda: sys.stdout.write(json.dumps(said, ensure_ascii=False))) == 0
    assert json.loads(raw.getvalue().decode(encoding)) == said


def test_a_file_that_the_system_refuses_is_named_with_what_to_check(
    project: Toy, harness: Harness
) -> None:
    card = project.root / "datasets" / "toy" / "card.toml"
    card.unlink()
    os.mknod(card, stat.S_IFSOCK | 0o600)
    for words in (
        ("stage", "prepare", "--dataset", "toy"),
        ("stage", "prepare", "--dataset", "toy", "--update"),
    ):
        said = harness(*words).error
        assert f"{card}: it cannot be used (No such device or address). Check that" in said


def test_a_full_disk_is_told_with_the_file_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        with replacing(tmp_path / "runs.parquet"):
            Path("/dev/full").write_text("x")

    assert ended(fails) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'runs.parquet'}: it cannot be used (No space left on device). Free" in said


def test_an_output_that_a_shell_closed_is_nothing_and_no_file_of_ours(project: Toy) -> None:
    """``ask`` ended in an unforeseen failure, and an index was opened under the number of it."""
    script = "import os, stat, sys; os.close(1); sys.stdout = None;"
    script += "sys.argv = ['harness', 'ask', 'balo', '--dataset', 'toy', '--arm', 'fts5'];"
    script += "from harness.cli import main\ntry: main()\n"
    script += "finally: sys.stderr.write(str(stat.S_ISCHR(os.fstat(1).st_mode)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "True")


def test_memory_that_ran_out_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, harness: Harness
) -> None:
    """It was an unforeseen failure, without a word of what to do."""
    monkeypatch.setattr("harness.pipeline.gate.gate", mock.Mock(side_effect=MemoryError))
    assert "memory ran out. End other programs or raise the limit" in harness("gate").error


def test_where_no_words_have_room_it_is_still_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exit_codes, "_said", mock.Mock(side_effect=MemoryError))
    assert exit_codes.failed(ValueError("large"), debug=False) == 2
    assert capsys.readouterr().err.startswith("error: memory ran out. End other")


def test_a_failure_without_better_words_is_printed_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a package missing, a newcomer was told that memory ran out."""
    missing = ModuleNotFoundError("No module named 'typer'", name="typer")
    monkeypatch.setattr(exit_codes, "_said", mock.Mock(side_effect=missing))
    assert exit_codes.failed(ValueError("large"), debug=False) == 2
    assert capsys.readouterr().err == "error: ValueError: large\n"


def test_an_interrupt_says_how_to_go_on(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.pipeline.score.score", interrupted)
    said = harness("stage", "score", "--dataset", "toy")
    assert said.code == 130
    assert "run the same command again to go on" in said.err


def test_an_error_of_our_own_is_two_and_its_traceback_is_shown_where_it_is_asked_for(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("harness.pipeline.score.score", broken)
    said = harness("stage", "score", "--dataset", "toy").error
    assert said.startswith("ZeroDivisionError: by nothing (test_boundary.py:")
    assert said.endswith("--debug shows the traceback")
    for words in (("--debug", "stage", "score"), ("stage", "score", "--debug")):
        shown = harness(*words, "--dataset", "toy")
        assert shown.code == 2
        assert "Traceback (most recent call last)" in shown.err
        assert shown.err.splitlines()[-1].startswith("error: ZeroDivisionError")


def test_a_full_disk_has_its_remedy_whoever_was_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("harness.pipeline.score.score", broken)
    said = harness("stage", "score", "--dataset", "toy").error
    assert said.startswith("a disk refused a file (No space left on device)")
    assert said.endswith("Free some space on that disk, then run the same command again")


def test_an_end_of_input_while_somebody_is_asked_is_an_interrupt(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.oneshot.on_terminal", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert harness("init", "mine").code == 130


def typed(project: Toy, *words: str | Path, stdout: int | None = subprocess.PIPE) -> Program:
    return Program([*PYTHON, *words], cwd=project.root, stdout=stdout, stderr=subprocess.PIPE)


@pytest.fixture
def full() -> Iterator[int]:
    """Open a disk that is full."""
    opened = os.open("/dev/full", os.O_WRONLY)
    yield opened
    os.close(opened)


def test_an_answer_that_cannot_be_written_is_no_success(project: Toy, full: int) -> None:
    with typed(project, *ASK, "fts5", stdout=full) as running:
        _, said = running.communicate()
    assert running.returncode == 2
    assert "No space left on device" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("words", [("--help",), (*ASK, "fts5")])
def test_a_reader_that_leaves_ends_it_in_silence(project: Toy, words: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with typed(project, *words, stdout=writes) as running:
        os.close(writes)
        _, said = running.communicate()
    assert (running.returncode, said) == (PIPED, "")


def test_what_an_engine_prints_does_not_spoil_an_answer(
    broken: Callable[[str, str], Path], project: Toy
) -> None:
    arm = broken("never", "pass")
    text = arm.with_suffix(".py").read_text().replace("\nMOMENT", f"{NOISY}\nMOMENT")
    quiet = text.replace('at("search")', "print('searching')")
    broken_engine.spoken(arm.parent, quiet)
    stamped(project.layout.index("own"), arm)
    with typed(project, *ASK, arm) as running:
        out, said = running.communicate()
    assert running.returncode == 0, said
    (one,) = json.loads(out)
    assert one["status"] == "answered"
    for line in ("loading a model", "written", "by a library", "by a program", "searching"):
        assert line in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_program_ends_as_a_ctrl_c_does(project: Toy, number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)  # a suite under nohup would hand on its deafness
    arm = broken_engine.spoken(project.root / "broken", SLOW)
    with typed(project, "stage", "index", "--dataset", "toy", "--arm", arm) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "ready\n"
        running.send_signal(number)
        assert running.stderr.read() == "interrupted; run the same command again to go on\n"
    assert running.returncode == 130
    assert not list(project.root.rglob(".*.partial"))


@pytest.mark.parametrize("second", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_signals_at_once_are_one(project: Toy, second: signal.Signals) -> None:
    """A supervisor sends two at once; the second was called memory that ran out."""
    arm = broken_engine.spoken(project.root / "broken", SLOW)
    with typed(project, "stage", "index", "--dataset", "toy", "--arm", arm) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        running.send_signal(second)
        assert running.stderr.read() == "interrupted; run the same command again to go on\n"
    assert running.returncode == 130


def test_a_second_signal_changes_nothing(project: Toy) -> None:
    arm = broken_engine.spoken(project.root / "broken", SLOW)
    with typed(project, "stage", "index", "--dataset", "toy", "--arm", arm) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        assert running.stderr.readline() == "interrupted; run the same command again to go on\n"
        running.send_signal(signal.SIGTERM)
        assert running.stderr.read() == ""
    assert running.returncode == 130
