"""Chunks that are related to those found: by what they name, and by how alike they are.

Specification 004, section 6. Its edges by co-reference are not drawn: nothing here resolves a
pronoun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.stacks.documents.entities import Entities
from engines.stacks.documents.texts.provenance import Provenance
from engines.vector.scan import nearest

LEAST_ALIKE = 0.5
"""Cosine below which two chunks are not neighbours."""
EDGE_DIGITS = 6


class Related(NamedTuple):
    """A chunk that was not asked for, and why it is shown."""

    provenance: Provenance
    edge_weight: float
    """In (0, 1]; not a score of the query."""
    shared: tuple[str, ...]
    """Entities shared with a chunk that was found; none where the two are only alike."""


class Edge(NamedTuple):
    """The strongest edge that leads to a chunk."""

    row: int
    weight: float
    shared: tuple[str, ...]

    def named(self, provenance: Provenance) -> Related:
        """Say where the chunk stands."""
        return Related(provenance, self.weight, self.shared)


class Expansion(NamedTuple):
    """What is related to an answer."""

    chunks: tuple[Related, ...]
    """Strongest edge first, equal ones by chunk id."""
    documents: tuple[str, ...]
    """Ids of their documents that the answer does not show, in the same order."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between the chunks of a collection; they are followed and not stored."""

    entities: Entities
    vectors: NDArray[np.float16] | None
    """Unit vectors, shape (chunks, dimension); None leaves edges by likeness out."""

    def expand(self, found: Sequence[int], most: int) -> list[Edge]:
        """Follow the edges of ``found`` to at most ``most`` chunks that are not among them.

        Each chunk found is left by at most ``most`` edges of either kind, so never more than
        2 * most * (chunks found) edges are held. Entities lead from one to no more than
        ``MOST_OF_A_CHUNK`` * ``MOST_CHUNKS`` others, whatever the collection.
        """
        if most < 1:
            return []
        primary = frozenset(found)
        strongest: dict[int, Edge] = {}
        for row in dict.fromkeys(found):
            for edge in (*self._naming(row, primary, most), *self._alike(row, primary, most)):
                known = strongest.get(edge.row)
                if known is None or (edge.weight, edge.shared) > (known.weight, known.shared):
                    strongest[edge.row] = edge
        return sorted(strongest.values(), key=_strongest_first)[:most]

    def _naming(self, row: int, primary: frozenset[int], most: int) -> list[Edge]:
        """Edges by entities: the share of a chunk's entities, by weight, that another has."""
        own = self.entities.of_chunk.get(row, ())
        whole = sum(self.entities.weight(entity) for entity in own)
        if whole <= 0:
            return []
        shared: dict[int, list[str]] = {}
        for entity in own:
            for other in self.entities.chunks[entity]:
                if other not in primary:
                    shared.setdefault(other, []).append(entity)
        edges = []
        for other, some in shared.items():
            weight = round(sum(self.entities.weight(e) for e in some) / whole, EDGE_DIGITS)
            edges.append(Edge(other, min(1.0, weight), tuple(some)))
        return sorted((edge for edge in edges if edge.weight > 0), key=_strongest_first)[:most]

    def _alike(self, row: int, primary: frozenset[int], most: int) -> list[Edge]:
        """Edges by likeness: the nearest chunks, by cosine."""
        if self.vectors is None:
            return []
        query = np.asarray(self.vectors[row], dtype=np.float32)
        top = nearest(self.vectors, query, min(len(self.vectors), most + len(primary)))
        pairs = zip(top.positions.tolist(), top.scores.tolist(), strict=True)
        edges = [
            Edge(other, min(1.0, cosine), ())
            for other, cosine in pairs
            if cosine >= LEAST_ALIKE and other not in primary
        ]
        return edges[:most]


def _strongest_first(edge: Edge) -> tuple[float, int]:
    return -edge.weight, edge.row
