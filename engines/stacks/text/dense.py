"""Documents by the cosine of their vector with the query's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engines.contract import manifest
from engines.contract.settings import StackSettings
from engines.lexical.typed import normalise
from engines.vector import recorded
from engines.vector.bulk import embed_all
from engines.vector.chosen import HASH, embedder_of
from engines.vector.embedder import Embedder
from engines.vector.store import VectorStore, open_store, write
from harness.core.engine import Agreement, Answer, Engine, Hit, Manifest
from harness.core.records import Document

ENGINE = "vectors"


class Settings(StackSettings):
    """Which embedder, and how much of a text it reads."""

    embedder: str
    """A model of ``engines.vector.models``, or ``hash``."""
    max_tokens: int = Field(ge=8, le=512)


@dataclass(frozen=True, slots=True)
class Dense:
    settings: Settings
    cache: Path

    def embedder(self) -> Embedder:
        """Open the embedder that the settings name."""
        return embedder_of(self.settings.embedder, self.settings.max_tokens)

    def keep_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> None:
        if self.settings.embedder == HASH:
            return
        texts = [*map(_read, documents), *map(normalise, queries)]
        recorded.write(folder, self.embedder(), self.cache, texts)

    def take_vectors(self, documents: Iterable[Document], folder: Path) -> Agreement | None:
        if self.settings.embedder == HASH:
            return None
        return recorded.take(folder, self.embedder(), self.cache, [*map(_read, documents)])

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        embedder = self.embedder()

        def fill(passing: Iterable[Document]) -> None:
            in_order = sorted((d.doc_id, _read(d)) for d in passing)
            vectors = embed_all([text for _, text in in_order], embedder, self.cache)
            write(index, [doc_id for doc_id, _ in in_order], vectors)

        return manifest.record(
            index,
            documents,
            fill,
            engine=ENGINE,
            version=embedder.identity,
            settings=self.settings.model_dump(),
        )

    @contextmanager
    def open(self, index: Path) -> Iterator[DenseSearcher]:
        made = manifest.read(index)
        embedder = self.embedder()
        manifest.check_made_by(
            index,
            made,
            engine=ENGINE,
            version=embedder.identity,
            settings=self.settings.model_dump(),
        )
        store = open_store(index, embedder.dimension)
        manifest.check_count(index, made, len(store.doc_ids))
        yield DenseSearcher(recorded.recorded(embedder, self.cache), store, made)


@dataclass(frozen=True, slots=True)
class DenseSearcher:
    embedder: Embedder
    store: VectorStore
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        asked = self.asked(text)
        if asked is None:
            return Answer((), self.manifest.fingerprint, "nothing was typed")
        nearest = self.store.nearest(asked, k)
        hits = tuple(Hit(doc_id, min(1.0, cosine), cosine) for doc_id, cosine in nearest)
        return Answer(hits, self.manifest.fingerprint)

    def asked(self, text: str) -> NDArray[np.float32] | None:
        """Embed what was typed, shape (dimension,); None where that is nothing."""
        typed = normalise(text)
        return self.embedder.embed([typed])[0] if typed else None


def _read(document: Document) -> str:
    return f"{document.title} {document.text}".strip()


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Dense(Settings.model_validate(settings), cache)
