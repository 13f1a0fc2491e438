"""Chunks that are related to those found: by what they name, and by how alike they are."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness_engines.vector.scan import nearest

MOST_CHUNKS = 64
"""An entity of more chunks says what the collection is about, and nothing of a chunk."""
MOST_OF_A_CHUNK = 16
"""Of the entities of a chunk the rarest count."""
LONGEST = 80
_ENTITY = re.compile(
    r"\b(?:"
    r"[A-Z][a-z]+(?:[ ](?:of[ ])?[A-Z][a-z]+){1,4}"
    r"|[A-Z][A-Z0-9]+(?:-[A-Z0-9]+)*"
    r"|[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+"
    r"|[a-z]+[A-Z][A-Za-z0-9]*"
    r"|[A-Z][a-z]+[A-Z][A-Za-z0-9]*"
    r")\b"
)


def named(text: str) -> frozenset[str]:
    """Entities of a text, lower-cased."""
    found = (match[0].lower() for match in _ENTITY.finditer(text))
    return frozenset(entity for entity in found if len(entity) <= LONGEST)


LEAST_ALIKE = 0.5
"""Cosine below which two chunks are not neighbours."""
EDGE_DIGITS = 6


class Edge(NamedTuple):
    """The strongest edge that leads to a chunk that was not found."""

    row: int
    weight: float
    """Of shared entities in (0.5, 1], of likeness alone up to 0.5; not a score of the query."""
    shared: tuple[str, ...]
    """Entities shared with a chunk that was found; none where the two are only alike."""


@dataclass(frozen=True, slots=True)
class ChunkGraph:
    """Edges between the chunks of a collection; they are followed and not stored."""

    chunks: dict[str, tuple[int, ...]]
    """Positions, ascending, of the chunks of each entity that connects 2 to ``MOST_CHUNKS``."""
    of_chunk: dict[int, tuple[str, ...]]
    """The entities of a chunk, the rarest first, at most ``MOST_OF_A_CHUNK``."""
    total: int
    """Chunks of the collection."""
    vectors: NDArray[np.float16] | None
    """Unit vectors, shape (chunks, dimension); None leaves edges by likeness out."""

    @classmethod
    def of(
        cls, of_chunks: Sequence[Collection[str]], vectors: NDArray[np.float16] | None
    ) -> "ChunkGraph":
        """Assemble what each chunk names, in the order of the chunks."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, entities in enumerate(of_chunks):
            for entity in entities:
                found[entity].append(number)
        connecting = {e: tuple(at) for e, at in found.items() if 1 < len(at) <= MOST_CHUNKS}
        of_chunk: dict[int, list[str]] = defaultdict(list)
        for entity in sorted(connecting, key=lambda e: (len(connecting[e]), e)):
            for number in connecting[entity]:
                if len(of_chunk[number]) < MOST_OF_A_CHUNK:
                    of_chunk[number].append(entity)
        own = {number: tuple(some) for number, some in of_chunk.items()}
        return cls(connecting, own, len(of_chunks), vectors)

    def expand(self, found: Sequence[int], most: int) -> list[Edge]:
        """Follow the edges of ``found`` to at most ``most`` chunks that are not among them."""
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
        """Edges by entities: the share of a chunk's entities, by weight, that another has.

        An entity weighs ln(chunks / chunks that name it), and 0 where all do.
        """
        own = self.of_chunk.get(row, ())
        weights = {entity: math.log(self.total / len(self.chunks[entity])) for entity in own}
        whole = sum(weights.values())
        if whole <= 0:
            return []
        shared: dict[int, list[str]] = {}
        for entity in own:
            for other in self.chunks[entity]:
                if other not in primary:
                    shared.setdefault(other, []).append(entity)
        edges = []
        for other, some in shared.items():
            share = sum(weights[entity] for entity in some) / whole
            if share > 0:
                weight = min(1.0, round((1 + share) / 2, EDGE_DIGITS))
                edges.append(Edge(other, weight, tuple(some)))
        return sorted(edges, key=_strongest_first)[:most]

    def _alike(self, row: int, primary: frozenset[int], most: int) -> list[Edge]:
        """Edges by likeness: the nearest chunks, by cosine."""
        if self.vectors is None:
            return []
        query = np.asarray(self.vectors[row], dtype=np.float32)
        top = nearest(self.vectors, query, min(len(self.vectors), most + len(primary)))
        pairs = zip(top.positions.tolist(), top.scores.tolist(), strict=True)
        edges = [
            Edge(other, min(1.0, cosine) / 2, ())
            for other, cosine in pairs
            if cosine >= LEAST_ALIKE and other not in primary
        ]
        return edges[:most]


def _strongest_first(edge: Edge) -> tuple[float, int]:
    return -edge.weight, edge.row
