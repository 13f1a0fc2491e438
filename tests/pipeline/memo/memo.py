"""Engines that think about what is new to them: to this process, or to the cache folder."""  # noqa: INP001  named by its path

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.engine import Answer, Engine, Manifest, Searcher
from harness.core.records import Document
from harness_engines.stacks.text import fts5

THINKS_S = 0.01
SEEN: set[str] = set()
"""A cache of the module: whatever is opened in this process shares it."""
Known = Callable[[str, int], bool]
"""Whether a text was asked before, at a depth; from now on it was."""


class Memo(NamedTuple):
    """Builds and opens FTS5."""

    inner: Engine
    known: Known

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        return self.inner.build(documents, index)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        with self.inner.open(index) as searcher:
            yield MemoSearcher(searcher, self.known)


class MemoSearcher(NamedTuple):
    """FTS5, open, with a memo."""

    inner: Searcher
    known: Known

    @property
    def manifest(self) -> Manifest:
        return self.inner.manifest

    def search(self, text: str, k: int) -> Answer:
        if not self.known(text, k):
            time.sleep(THINKS_S)
        return self.inner.search(text, k)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine: FTS5, which remembers texts, or bags of words and depths in a folder."""
    folder = cache / "known"

    def here(text: str, _: int) -> bool:
        known = text in SEEN
        SEEN.add(text)
        return known

    def on_disk(text: str, k: int) -> bool:
        words = " ".join(sorted(text.casefold().split()))
        kept = folder / f"{k} {words.encode().hex()[:200]}"
        known = kept.exists()
        folder.mkdir(parents=True, exist_ok=True)
        kept.touch()
        return known

    own = dict(settings)
    known = on_disk if own.pop("on_disk") else here
    return Memo(fts5.engine(own, cache), known)
