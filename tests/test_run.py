"""run.py: one command that makes the environment once, wherever the project was unpacked."""

import ast
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import run
from tests.source import ROOT

OLDEST = (3, 8)
"""Older Pythons cannot even read the message."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point run.py at a folder of its own, without git and without an environment."""
    for name in ("run.py", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(run, "LOCK", tmp_path / "requirements.lock")
    monkeypatch.setattr(run, "STAMP", tmp_path / ".venv" / "stamp")
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what would be made, and make nothing."""
    doings: list[str] = []
    monkeypatch.setattr(run, "create", lambda: doings.append("create"))
    monkeypatch.setattr(run, "install", lambda: doings.append("install"))
    return doings


def words(monkeypatch: pytest.MonkeyPatch, *typed: str) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", *typed])


def started(monkeypatch: pytest.MonkeyPatch, *typed: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that run.py becomes, and its environment."""
    seen: list[tuple[list[str], dict[str, str]]] = []
    words(monkeypatch, *typed)
    monkeypatch.chdir(run.ROOT)
    monkeypatch.setattr(os, "execvpe", lambda _, command, env: seen.append((command, env)))
    run.main()
    return seen[0]


def test_an_old_python_is_told_which_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], made: list[str]
) -> None:
    words(monkeypatch, "test")
    monkeypatch.setattr(sys, "version_info", (3, 10, 14))
    with pytest.raises(SystemExit) as left:
        run.main()
    assert left.value.code == 2
    assert "run.py: Python 3.11 or newer is needed, this is " in capsys.readouterr().err
    assert made == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_for_the_command_and_leaves_none_behind(number: signal.Signals) -> None:
    if number != signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)  # a suite under nohup would hand on its deafness
    said = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(60)"
    command = [sys.executable, "run.py", "python", "-c", said]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert int(running.stdout.readline()) == running.pid, "the command is the process itself"
        running.send_signal(number)
        assert running.wait(30) == -number


def test_an_old_python_can_read_the_file() -> None:
    ast.parse((ROOT / "run.py").read_text(), feature_version=OLDEST)


@pytest.mark.parametrize("changed", ["", "requirements.lock", "pyproject.toml"])
def test_the_environment_is_made_once_and_anew_for_another_lock(
    project: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    run.prepare()
    if changed:
        with (project / changed).open("a") as out:
            out.write("# changed\n")
    else:
        monkeypatch.delattr(run, "alone")  # the second time nobody waits for anybody
    run.prepare()
    assert made == ["create", "install"] * (2 if changed else 1)


def test_an_installation_that_fails_is_not_stamped(
    project: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        sys.exit("no network")

    monkeypatch.setattr(run, "install", fails)
    with pytest.raises(SystemExit, match="no network"):
        run.prepare()
    assert made == ["create"]
    assert not (project / ".venv" / "stamp").exists()


@pytest.mark.parametrize("uv_works", [True, False])
@pytest.mark.usefixtures("project")
def test_hashes_are_checked_whatever_installs(
    monkeypatch: pytest.MonkeyPatch, *, uv_works: bool
) -> None:
    asked: list[list[str]] = []

    def fake(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        failed = Path(command[0]).name == "uv" and not uv_works
        return subprocess.CompletedProcess(command, int(failed), "", "")

    run.VENV.mkdir()
    monkeypatch.setattr(subprocess, "run", fake)
    run.install()
    whole = [command for command in asked if str(run.LOCK) in command]
    assert [Path(command[0]).name == "uv" for command in whole] == [True, False][: 2 - uv_works]
    assert all({"--require-hashes", "--no-deps"} <= set(command) for command in whole)
    assert "--no-index" in asked[-1]


@pytest.mark.usefixtures("project", "made")
def test_an_unknown_command_exits_with_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words(monkeypatch, "no-such-command")
    assert run.main() == 2
    assert "no command 'no-such-command'" in capsys.readouterr().err


@pytest.mark.usefixtures("project", "made")
@pytest.mark.parametrize(
    ("typed", "starts", "threads"),
    [
        (("demo",), ["harness", "demo"], ""),
        (("test", "-q"), [*run.SHORT["test"], "-q"], ""),
        (("ruff", "check"), ["ruff", "check"], "4"),
    ],
)
def test_what_is_typed_is_run_inside_the_environment(
    monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...], starts: list[str], threads: str
) -> None:
    """NumPy multiplies on one thread, unless somebody says otherwise."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    if threads:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    command, env = started(monkeypatch, *typed)
    assert command == starts
    assert env["PATH"].split(os.pathsep)[0] == str(run.BIN)
    assert env["VIRTUAL_ENV"] == str(run.VENV)
    assert env["OPENBLAS_NUM_THREADS"] == (threads or "1")


@pytest.mark.skipif(os.name == "nt", reason="the environment has another shape there")
def test_a_tarball_without_git_works(project: Path) -> None:
    """The real file in another folder, its environment made and stamped beforehand."""
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "stamp").write_text(run.stamp())
    command = [sys.executable, "run.py", sys.executable, "-c", "print(6 * 7)"]
    result = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "42\n", "")
