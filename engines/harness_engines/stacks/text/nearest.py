"""The stack ``dense`` with a graph in place of the scan: near all of the nearest, in less time.

Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical
Navigable Small World graphs", 2018. The graph only names candidates. Their cosines are added up
exactly, as ``dense`` does, so an arm of this stack differs in what it overlooks alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from harness.core.engine import Answer, Engine, Hit, Manifest
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.lexical.terms import normalise
from harness_engines.stacks.text import dense
from harness_engines.vector import bulk
from harness_engines.vector.amvi import VectorStore, open_store
from harness_engines.vector.embedder import Embedder, embedder_of
from harness_engines.vector.scan import dots_of

GRAPH = "graph.usearch"
METRIC, STORED = "ip", "f16"


class NearestSettings(dense.EmbedderSettings):
    """Those of ``dense``, and how far the graph looks."""

    links: int = Field(default=16, ge=2, le=256)
    """Of a document in the graph."""
    building: int = Field(default=128, ge=1, le=10_000)
    """Candidates that are compared when a document is put in."""
    searching: int = Field(default=128, ge=1, le=100_000)
    """Candidates that are compared for a query; more find more, and take longer."""

    @model_validator(mode="after")
    def _far_enough(self) -> Self:
        if self.building < self.links:
            raise ValueError("building is below links, so the graph could not have that many")
        return self


@dataclass(frozen=True, slots=True)
class Nearest(FileEngine["NearestSearcher"]):
    ENGINE: ClassVar = "hnsw"
    settings: NearestSettings
    cache: Path

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        embedder = self._embedder()
        vectors = dense.write_vectors(documents, embedder, self.cache, index)
        graph = self._graph(embedder.dimension)
        if len(vectors):
            graph.add(np.arange(len(vectors)), vectors, threads=1)
        graph.save(str(index / GRAPH))

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[NearestSearcher]:
        embedder = self._embedder()
        store = open_store(index, embedder.dimension)
        contract.check_count(index, made, len(store.doc_ids))
        graph = self._graph(embedder.dimension)
        with contract.reading(index / GRAPH, OSError, RuntimeError, ValueError):
            graph.view(str(index / GRAPH))
        contract.check_count(index, made, len(graph))
        graph.expansion_search = self.settings.searching
        yield NearestSearcher(bulk.recorded(embedder, self.cache), store, graph, made)

    def _graph(self, dimension: int) -> Any:  # noqa: ANN401  usearch may be absent
        from usearch.index import Index

        return Index(
            ndim=dimension,
            metric=METRIC,
            dtype=STORED,
            connectivity=self.settings.links,
            expansion_add=self.settings.building,
            expansion_search=self.settings.searching,
        )

    def _embedder(self) -> Embedder:
        return embedder_of(self.settings.embedder, self.settings.max_tokens)

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        from usearch import __version__

        return f"{self._embedder().identity}, usearch {__version__}"


@dataclass(frozen=True, slots=True, eq=False)
class NearestSearcher:
    embedder: Embedder
    store: VectorStore
    graph: Any
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        typed = normalise(text)
        if not typed:
            return Answer((), self.manifest.fingerprint, "nothing was typed")
        asked = self.embedder.embed([typed])[0]
        ids = self.store.doc_ids
        if not ids:
            return Answer((), self.manifest.fingerprint)
        wanted = min(max(k, self.graph.expansion_search), len(ids))
        found = self.graph.search(asked.astype(np.float16), wanted, threads=1).keys
        rows = np.sort(found.astype(np.int64))
        cosines = dots_of(self.store.vectors, asked, rows)
        order = np.lexsort((rows, -cosines))[:k]
        best = zip(rows[order].tolist(), cosines[order].tolist(), strict=True)
        hits = tuple(Hit(ids[row], min(1.0, cosine), cosine) for row, cosine in best if cosine > 0)
        return Answer(hits, self.manifest.fingerprint)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    import usearch  # noqa: F401  says early what is missing

    return Nearest(NearestSettings.model_validate(settings), cache)
