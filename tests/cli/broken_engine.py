"""An engine that fails where a test wants it: at import, made, built, opened, searched."""

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
"""The stack fts5, which fails at one moment."""

from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat

from harness_engines.stacks.text import fts5

SETTINGS = {{"tokenize": "unicode61", "title_weight": 3.0, "text_weight": 1.0, "joined": "both"}}
MOMENT = {moment!r}


def fail():
    {how}


def at(moment):
    if moment == MOMENT:
        fail()


class Searcher:
    def __init__(self, inner):
        self.inner = inner
        self.manifest = inner.manifest

    def search(self, text, k):
        at("search")
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
        return self.inner.build(documents, index)

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


def write(folder: Path, moment: str = "never", how: str = "pass") -> Path:
    """Write the engine, and give the file of its arm."""
    text = SOURCE.format(moment=moment, how=how, endless=ENDLESS)
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
