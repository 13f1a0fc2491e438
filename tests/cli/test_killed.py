"""A process that is killed leaves nothing half written, and the same command goes on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from subprocess import DEVNULL

import pytest

from harness.core.folders import RUN, mark
from tests.cli.conftest import Harness
from tests.make.toy import Toy
from tests.programs import PYTHON, Program

pytestmark = pytest.mark.slow
SLOW = '''
"""The stack fts5, so slow that it can be killed where a test wants it."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

from engines import contract as manifest
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
    assert [path.name for path in out.glob("[!.]*.*")] == [mark(out, RUN).name]
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
