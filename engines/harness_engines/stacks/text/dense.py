"""Documents by the cosine of their vector with the query's.

A vector knows no operators. So words are indexed too, and where a query says what must or must not
be there, they choose the documents that vectors rank.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher, VectorAgreement
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import FileEngine, Opened, PartsEngine, StackSettings
from harness_engines.lexical.grammar import binding, note_refusals, positive
from harness_engines.lexical.terms import normalise
from harness_engines.stacks.text import fts5
from harness_engines.vector import bulk
from harness_engines.vector.amvi import VectorStore, open_store, write_store
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import (
    HASH,
    Embedder,
    embedder_of,
    have_no_common_direction,
    identity_of_embedder,
)

WORDS = "words"
"""Folder of the words, within the index."""


class EmbedderSettings(StackSettings):
    """Which embedder, and how much of a text it reads."""

    embedder: str
    """A model of ``harness_engines.vector.embedder``, or ``hash``."""
    max_tokens: int = Field(ge=8, le=512)


class DenseSettings(EmbedderSettings):
    """And which model embeds queries."""

    query_embedder: str = ""
    """One of the same weights, such as those in eight bits; empty for the documents' own."""

    @model_validator(mode="after")
    def _one_space(self) -> Self:
        if have_no_common_direction(self.query_embedder, self.embedder):
            raise ValueError(
                f"query_embedder {self.query_embedder!r} and embedder {self.embedder!r} have no"
                " directions in common; name one of the same weights, or leave query_embedder out"
            )
        return self

    @model_serializer(mode="wrap")
    def _named_only(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is empty: an index that was built before this key is the same one."""
        return {key: value for key, value in whole(self).items() if value != ""}

    @property
    def identity(self) -> str:
        """Return which models the vectors of documents and of queries depend on."""
        documents = identity_of_embedder(self.embedder, self.max_tokens)
        if not self.query_embedder:
            return documents
        return (
            f"{documents}; queries by {identity_of_embedder(self.query_embedder, self.max_tokens)}"
        )


@dataclass(frozen=True, slots=True)
class Dense(FileEngine["DenseSearcher"]):
    ENGINE: ClassVar = "vectors"
    settings: DenseSettings
    cache: Path
    alone: bool = False
    """Whether it keeps words for operators; where it is a part, the other part has them."""

    def embedder(self) -> Embedder:
        """Open the embedder of documents."""
        return embedder_of(self.settings.embedder, self.settings.max_tokens)

    def query_embedder(self) -> Embedder:
        """Open the embedder of queries."""
        named = self.settings.query_embedder or self.settings.embedder
        return embedder_of(named, self.settings.max_tokens)

    def keep_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> None:
        if self.settings.embedder == HASH:
            return
        asked = [*map(normalise, queries)]
        bulk.write(folder, self.embedder(), self.cache, [*map(_read, documents), *asked])
        if self.settings.query_embedder:
            bulk.write(folder, self.query_embedder(), self.cache, asked)

    def take_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> VectorAgreement | None:
        if self.settings.embedder == HASH:
            return None
        said = [bulk.take(folder, self.embedder(), self.cache, [*map(_read, documents)])]
        if self.settings.query_embedder:
            asked = [*map(normalise, queries)]
            said.append(bulk.take(folder, self.query_embedder(), self.cache, asked))
        return VectorAgreement.of(said)

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return self.settings.identity

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        documents = tuple(documents)
        if self.alone:
            (index / WORDS).mkdir()
            _words().build(documents, index / WORDS)
        in_order = sorted((one.doc_id, _read(one)) for one in documents)
        vectors = embed_all([text for _, text in in_order], self.embedder(), self.cache)
        write_store(index, [doc_id for doc_id, _ in in_order], vectors)

    @contextmanager
    def load(self, index: Path, made: Manifest) -> "Iterator[DenseSearcher]":
        embedder = self.query_embedder()
        store = open_store(index, embedder.dimension)
        contract.check_count(index, made, len(store.doc_ids))
        said = bulk.recorded(embedder, self.cache)
        with _words().open(index / WORDS) if self.alone else nullcontext() as words:
            if words is not None:
                contract.check_count(index, made, words.manifest.documents)
            yield DenseSearcher(said, store, made, words)


@dataclass(frozen=True, slots=True)
class DenseSearcher:
    embedder: Embedder
    store: VectorStore
    manifest: Manifest
    words: Searcher | None = None

    def search(self, text: str, k: int) -> Answer:
        bound = binding(text) if self.words is not None else ""
        query = self.query_vector(text)
        if query is None:
            hits = self._allowed(bound, k) if bound else ()
            return Answer(
                hits,
                self.manifest.fingerprint,
                note_refusals(text) if hits else "nothing was typed",
            )
        if bound:
            allowed = [hit.doc_id for hit in self._allowed(bound, len(self.store.doc_ids))]
            found = self.store.cosines(query, allowed).items()
            nearest = sorted(found, key=lambda pair: (-pair[1], pair[0]))[:k]
        else:
            nearest = self.store.nearest(query, k)
        hits = tuple(Hit(d, min(1.0, cosine), cosine) for d, cosine in nearest if cosine > 0)
        return Answer(hits, self.manifest.fingerprint, note_refusals(text) if bound else "")

    def _allowed(self, bound: str, most: int) -> tuple[Hit, ...]:
        """List documents of which the constraints hold; of refusals alone by id, with score 0."""
        return self.words.search(bound, most).hits if self.words is not None else ()

    def query_vector(self, text: str) -> NDArray[np.float32] | None:
        """Embed what is looked for, shape (dimension,); None where that is nothing."""
        typed = positive(text) if binding(text) else normalise(text)
        return self.embedder.embed([typed])[0] if typed else None


class WithDense(PartsEngine[Opened]):
    """An engine with parts of this stack: their vectors can be copied to another machine."""

    def keep_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> None:
        read, asked = tuple(documents), tuple(queries)
        for part in self._dense():
            part.keep_vectors(read, asked, folder)

    def take_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> VectorAgreement | None:
        read, asked = tuple(documents), tuple(queries)
        return VectorAgreement.of(part.take_vectors(read, asked, folder) for part in self._dense())

    def _dense(self) -> list[Dense]:
        return [part for part in self.engines().values() if isinstance(part, Dense)]


def _words() -> fts5.Fts5:
    return fts5.Fts5(
        fts5.Fts5Settings(tokenize="unicode61", title_weight=1.0, text_weight=1.0, joined="both")
    )


def _read(document: Document) -> str:
    return f"{document.title} {document.text}".strip()


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Dense(DenseSettings.model_validate(settings), cache, alone=True)
