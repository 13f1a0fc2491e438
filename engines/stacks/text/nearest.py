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
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from engines import contract
from engines.lexical.terms import normalise
from engines.stacks.text import dense
from engines.vector import bulk
from engines.vector.amvi import VectorStore, open_store, write_store
from engines.vector.bulk import embed_all
from engines.vector.embedder import Embedder, embedder_of
from engines.vector.scan import dots_of
from harness.core.engine import Answer, Engine, Hit, Manifest
from harness.core.errors import IndexNotReady
from harness.core.records import Document

ENGINE = "hnsw"
GRAPH = "graph.usearch"
METRIC, STORED = "ip", "f16"


class Settings(dense.EmbedderSettings):
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
class Nearest:
    settings: Settings
    cache: Path

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        embedder = self._embedder()

        def fill(passing: Iterable[Document]) -> None:
            in_order = sorted((d.doc_id, f"{d.title} {d.text}".strip()) for d in passing)
            vectors = embed_all([text for _, text in in_order], embedder, self.cache)
            write_store(index, [doc_id for doc_id, _ in in_order], vectors)
            graph = self._graph(embedder.dimension)
            if len(vectors):
                graph.add(np.arange(len(vectors)), vectors, threads=1)
            graph.save(str(index / GRAPH))

        return contract.record(index, documents, fill, **self._made_by(embedder))

    @contextmanager
    def open(self, index: Path) -> Iterator[NearestSearcher]:
        """Map vectors and graph.

        Raises:
            IndexNotReady: a file is missing, damaged, or of another build.
        """
        made = contract.read(index)
        embedder = self._embedder()
        contract.check_made_by(index, made, **self._made_by(embedder))
        store = open_store(index, embedder.dimension)
        contract.check_count(index, made, len(store.doc_ids))
        graph = self._graph(embedder.dimension)
        try:
            graph.view(str(index / GRAPH))
        except (OSError, RuntimeError, ValueError) as exc:
            raise IndexNotReady(f"{index / GRAPH}: {exc}. Build it again: harness index") from exc
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

    def _made_by(self, embedder: Embedder) -> dict[str, Any]:
        from usearch import __version__

        return {
            "engine": ENGINE,
            "version": f"{embedder.identity}, usearch {__version__}",
            "settings": self.settings.model_dump(),
        }


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
        cosines = self._nearest(asked, min(k, len(self.store.doc_ids)))
        hits = tuple(Hit(doc_id, min(1.0, cosine), cosine) for doc_id, cosine in cosines)
        return Answer(hits, self.manifest.fingerprint)

    def _nearest(self, asked: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """Give up to ``k`` documents with their exact cosines, if above 0, best first."""
        if not k:
            return []
        wanted = min(max(k, self.graph.expansion_search), len(self.store.doc_ids))
        found = self.graph.search(asked.astype(np.float16), wanted, threads=1).keys
        rows = np.sort(found.astype(np.int64))
        cosines = dots_of(self.store.vectors, asked, rows)
        order = np.lexsort((rows, -cosines))[:k]
        best = zip(rows[order].tolist(), cosines[order].tolist(), strict=True)
        return [(self.store.doc_ids[row], cosine) for row, cosine in best if cosine > 0]


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``.

    Raises:
        ModuleNotFoundError: the extra nearest is not installed.
    """
    import usearch  # noqa: F401  says early what is missing

    return Nearest(Settings.model_validate(settings), cache)
