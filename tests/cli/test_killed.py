"""A process that is killed leaves nothing half written, and the same command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import harness as harness_code
from tests.cli.conftest import Harness
from tests.toy import Toy

SLOW = '''
"""The stack fts5, so slow that it can be killed where a test wants it."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

from engines.contract import manifest
from engines.stacks.text import fts5
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


def in_a_process(project: Toy, arm: Path, out: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(harness_code.__path__[0]).parent)}
    return subprocess.run(
        [sys.executable, "-m", "harness", *map(str, words(arm, out))],
        cwd=project.root,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("doing", ["indexing", "replaying"])
def test_a_killed_run_goes_on(project: Toy, harness: Harness, tmp_path: Path, doing: str) -> None:
    arm = tmp_path / "slow.toml"
    arm.write_text('summary = "fts5, killed"\nstack = "slow.py"\n')
    arm.with_suffix(".py").write_text(SLOW)
    (tmp_path / "dies").write_text(doing)
    out = tmp_path / "out"
    killed = in_a_process(project, arm, out)
    assert killed.returncode == -signal.SIGKILL
    assert not list(out.glob("*.*"))
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
    assert all(path.name.startswith(".") for path in out.rglob("*.partial"))
