"""An engine that thinks about what is new to it, and keeps bags of words and depths on disk."""  # noqa: INP001  named by its path

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.engine import Answer, Engine, Manifest, Searcher
from harness.core.records import Document
from harness_engines.stacks.text import fts5

THINKS_S = 0.01


class Kept(NamedTuple):
    """Builds and opens FTS5."""

    inner: Engine
    known: Path

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        return self.inner.build(documents, index)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        with self.inner.open(index) as searcher:
            yield KeptSearcher(searcher, self.known)


class KeptSearcher(NamedTuple):
    """FTS5, open, with texts on disk."""

    inner: Searcher
    known: Path

    @property
    def manifest(self) -> Manifest:
        return self.inner.manifest

    def search(self, text: str, k: int) -> Answer:
        words = " ".join(sorted(text.casefold().split()))
        kept = self.known / f"{k} {words.encode().hex()[:200]}"
        if not kept.exists():
            time.sleep(THINKS_S)
            kept.touch()
        return self.inner.search(text, k)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine: FTS5 with these settings, and texts in the cache folder."""
    known = cache / "known"
    known.mkdir(parents=True, exist_ok=True)
    return Kept(fts5.engine(settings, cache), known)
