"""A command in a process of its own, forked or started anew, is the same to who starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from tests import forked
from tests.programs import PYTHON, Program
from tests.source import ROOT

BOUNDED_S = 60


@pytest.fixture(params=["forked", "anew"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Start a program in each of both ways."""
    to = forked.KNOWN["forkserver"] if request.param == "forked" else forked.ANEW
    monkeypatch.setitem(forked.KNOWN, "spawn", to)
    return str(request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_it_ends_by_its_code_and_its_pipes_and_folder_are_its_own(tmp_path: Path) -> None:
    env = {**os.environ, "HARNESS_CALLED": "python3 mine.py"}
    with Program([*PYTHON, "no-such"], cwd=tmp_path, env=env, stdout=PIPE, stderr=PIPE) as running:
        out, said = running.communicate(timeout=BOUNDED_S)
    assert (running.returncode, out) == (2, "")
    assert "Try 'python3 mine.py harness -h'" in said
    with Program([*PYTHON, "init", "it"], cwd=tmp_path, stdout=PIPE) as running:
        assert running.wait(timeout=BOUNDED_S) == 0
    assert (tmp_path / "it").is_dir()
    assert Path.cwd() != tmp_path


@pytest.mark.slow
def test_a_forked_one_has_the_number_and_the_end_of_a_process(tmp_path: Path, way: str) -> None:
    """It waits for its reader where the pipe is full."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(write, True)
    with Program([*PYTHON, "--help"], cwd=tmp_path, stdout=write) as running:
        assert (running.forked is not None) == (way == "forked")
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=0.01)
        assert running.poll() is None
        running.send_signal(signal.SIGKILL)
        assert running.wait(timeout=BOUNDED_S) == -signal.SIGKILL
        assert running.poll() == running.returncode == -signal.SIGKILL
    os.close(read)
    os.close(write)


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_a_test_that_fails_leaves_no_process_to_be_waited_for(tmp_path: Path) -> None:
    stopped = Program([*PYTHON, "doctor"], cwd=tmp_path, stdout=PIPE)
    stopped.send_signal(signal.SIGSTOP)
    with pytest.raises(ZeroDivisionError), stopped:
        _ = 1 / 0
    assert stopped.returncode == -signal.SIGKILL


def test_interrupts_are_heard_in_a_run_that_a_shell_put_into_the_background() -> None:
    """A shell starts what ends in ``&`` with them ignored, and every process that it starts."""
    code = (
        "import pytest, signal\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
        "assert pytest.main(['--collect-only', '-q', 'tests/test_programs.py']) == 0\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    ended = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, code],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
