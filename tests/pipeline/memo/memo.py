"""An engine that thinks for a while about every text that is new to its process."""  # noqa: INP001  named by its path

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.engine import Answer, Engine, Manifest, Searcher
from harness.core.records import Document
from harness_engines.stacks.text import fts5

THINKS_S = 0.01
SEEN: dict[str, Answer] = {}
"""A cache of the module: whatever is opened in this process shares it."""


class Memo(NamedTuple):
    """Builds and opens FTS5."""

    inner: Engine

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        return self.inner.build(documents, index)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        with self.inner.open(index) as searcher:
            yield MemoSearcher(searcher)


class MemoSearcher(NamedTuple):
    """FTS5, open, with a memo."""

    inner: Searcher

    @property
    def manifest(self) -> Manifest:
        return self.inner.manifest

    def search(self, text: str, k: int) -> Answer:
        if text not in SEEN:
            time.sleep(THINKS_S)
            SEEN[text] = self.inner.search(text, k)
        return SEEN[text]


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine: FTS5 with these settings, and a memo."""
    return Memo(fts5.engine(settings, cache))
