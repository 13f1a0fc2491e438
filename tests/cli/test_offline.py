"""Nothing that is run asks the network for anything: not the harness, a model, or a library."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.offline import can_forbid
from tests.make.toy import Toy
from tests.source import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_forbid(), reason="the system cannot forbid sockets"),
]
ASKS = '''
"""The stack fts5, which asks the network for something."""

import socket

from engines.stacks.text import fts5

SETTINGS = {"tokenize": "unicode61", "title_weight": 2.0, "text_weight": 1.0, "joined": "both"}


def engine(settings, cache):
    with socket.socket(socket.AF_INET6):
        return fts5.engine(SETTINGS, cache)
'''


def offline(project: Toy, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.cli.offline", *map(str, words)],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_libraries_are_told_to_report_nothing() -> None:
    """Not each release of onnxruntime, and not at each start, asks for a socket."""
    words = [sys.executable, "-c", "import os, engines; print(os.environ['ORT_DISABLE_TELEMETRY'])"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ORT_DISABLE_TELEMETRY": "0"}
    assert subprocess.run(words, env=env, capture_output=True, check=True).stdout == b"1\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        ("run", "--dataset", "toy", "--arms", "tantivy,hybrid-rerank", "--control", "tantivy",
         "--out", "out"),
        ("ask", "lo", "--dataset", "toy", "--arm", "fts5"),
        ("shadow", "run", "--dataset", "toy", "--control", "fts5", "--candidate", "tantivy",
         "--out", "log", "--count", "5", "--shadow-settings", "shadow.toml"),
        ("doctor",),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_command_needs_no_network(project: Toy, words: tuple[str, ...]) -> None:
    shutil.copy(ROOT / "policy" / "shadow.toml", project.root)
    done = offline(project, *words)
    assert done.returncode >= 0, done.stderr
    assert "sockets cannot be forbidden" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.whole("tests/cli/test_offline.py::test_a_command_needs_no_network")
def test_the_whole_demo_needs_no_network(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.offline", "demo"],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (clone / "reports" / "index.html").is_file()


def test_whoever_asks_is_killed(project: Toy, tmp_path: Path) -> None:
    (tmp_path / "asks.toml").write_text('summary = "fts5"\nstack = "asks.py"\n')
    (tmp_path / "asks.py").write_text(ASKS)
    done = offline(project, "stage", "index", "--dataset", "toy", "--arm", tmp_path / "asks.toml")
    assert done.returncode == -signal.SIGSYS
