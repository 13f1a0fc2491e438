"""An engine that fails, or is killed, where a test wants it.

The moments are those below, and "built" and "search 30". It is killed at the one that the file
``dies`` beside it names, and each time that it builds it adds an ``x`` to the file ``built``.
"""

from pathlib import Path

from harness.core.digest import of_files
from harness.pipeline.layout import MADE_WITH

MOMENTS = ("import", "make", "build", "open", "search", "stages")
FAILURES = {
    "ImportError": "raise ImportError('no such package')",
    "OSError": "raise OSError(28, 'No space left on device')",
    "MemoryError": "raise MemoryError",
    "RecursionError": "def deeper():\n        deeper()\n    deeper()",
    "exit 0": "raise SystemExit(0)",
    "exit 1": "raise SystemExit(1)",
    "exit in words": "raise SystemExit('done')",
    "no Exception": "raise BaseException('a panic of Rust')",
    "no ASCII": "raise ValueError('\\x1b[31m\\udcff \\u202e' + 'x' * 10_000)",
}
"""What is raised, as lines of a function."""
ENDLESS = "endless"
ARM = """\
summary = "fts5, broken"
stack = "own.py"

[settings]
any = 1
"""
SOURCE = '''\
"""The stack fts5, which fails at one moment, or is killed."""

import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from harness_engines.stacks.text import fts5

WEIGHTS = {{"title_weight": {weight}, "text_weight": 1.0}}
SETTINGS = {{"tokenize": "unicode61", "joined": "both", **WEIGHTS}}
MOMENT = {moment!r}
DIES = Path(__file__).with_name("dies")


def fail():
    {how}


def at(moment):
    if moment == MOMENT:
        fail()
    if DIES.exists() and DIES.read_text() == moment:
        os.kill(os.getpid(), signal.SIGKILL)


class Searcher:
    def __init__(self, inner):
        self.inner = inner
        self.manifest = inner.manifest
        self.searched = 0

    def search(self, text, k):
        self.searched += 1
        at("search")
        at(f"search {{self.searched}}")
        answer = self.inner.search(text, k)
        if MOMENT == {endless!r}:
            return replace(answer, hits=repeat(answer.hits[0]))
        return answer

    def stages(self, text, k, params):
        at("stages")
        hits = self.inner.search(text, k).hits
        from harness.core.engine import Stage

        if MOMENT == {endless!r}:
            return repeat(Stage("words", hits))
        return (Stage("words", hits),)


class Engine:
    def __init__(self, inner):
        self.inner = inner

    def build(self, documents, index):
        at("build")
        with DIES.with_name("built").open("a") as built:
            built.write("x")
        made = self.inner.build(documents, index)
        at("built")
        return made

    @contextmanager
    def open(self, index):
        at("open")
        with self.inner.open(index) as searcher:
            yield Searcher(searcher)


def engine(settings, cache):
    at("make")
    return Engine(fts5.engine(SETTINGS, cache))


at("import")
'''


def write(folder: Path, moment: str = "never", how: str = "pass", weight: float = 3.0) -> Path:
    """Write the engine, and give the file of its arm; with a weight of 2 it ranks as fts5 does."""
    text = SOURCE.format(moment=moment, how=how, endless=ENDLESS, weight=weight)
    return spoken(folder, text)


def spoken(folder: Path, text: str) -> Path:
    """Write an engine of one's own text, and give the file of its arm."""
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(text, encoding="utf-8")
    (folder / "own.toml").write_text(ARM)
    return folder / "own.toml"


def stamped(index: Path, arm: Path) -> None:
    """Say of an index that it was built with the arm as it is now."""
    files = [arm, *sorted(arm.parent.glob("*.py"))]
    (index / MADE_WITH).write_text(of_files(files), encoding="utf-8")
