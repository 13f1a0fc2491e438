"""Graph ranking: another order of the same hits (section "Phase 11: Graph-aware ranking").

The first N are chosen before this module sees them, and it gives back the same N: the membership
invariant holds by construction. Added to a hit's score are how many neighbours it has, on a scale
that levels off. So is how near it lies to the seeds, the hits that are best without the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log1p
from typing import Any, NamedTuple

from engines.ranking.rrf import TIE_DIGITS
from engines.stacks.code.config import Graph as Settings
from engines.stacks.code.graph import MOST_NEIGHBOURS, Graph

DEPTH = 2
"""Steps from a seed that still count as near."""
WIDTH = 12
"""Neighbours of one unit that are walked to."""
VISITED = 192
"""Units that one walk sees."""


class Placed(NamedTuple):
    """A row, its score in [0, 1] with the graph, and what explain says."""

    row: int
    score: float
    graph: Mapping[str, Any]


def reordered(
    scored: Sequence[tuple[int, float]], graph: Graph, settings: Settings
) -> list[Placed]:
    """Order (row, score in [0, 1]) pairs, best first, with the graph; ties by row.

    Every row that is given comes back, once, and no other.
    """
    seeds = [row for row, _ in scored[: _seeds(settings)]]
    near = distances(graph, seeds)
    most = 1.0 + settings.degree + settings.proximity
    placed = []
    for row, score in scored:
        degree = graph.degree(row)
        proximity = 1.0 / (1 + near[row]) if row in near else 0.0
        share = log1p(degree) / log1p(MOST_NEIGHBOURS)
        added = settings.degree * share + settings.proximity * proximity
        told = {
            "score": added,
            "degree": degree,
            "proximity": proximity,
            "weights": {"degree": settings.degree, "proximity": settings.proximity},
            "seedSelection": settings.seed_selection,
            "seedK": settings.seed_k,
        }
        placed.append(Placed(row, round((score + added) / most, TIE_DIGITS), told))
    return sorted(placed, key=lambda one: (-one.score, one.row))


def distances(graph: Graph, seeds: Sequence[int]) -> Mapping[int, int]:
    """Walk from the seeds, breadth first; steps to each unit reached, 0 for a seed."""
    found = dict.fromkeys(seeds, 0)
    edge = list(seeds)
    for step in range(1, DEPTH + 1):
        following: list[int] = []
        for row in edge:
            for neighbour in graph.neighbours(row)[:WIDTH]:
                if neighbour.row not in found:
                    if len(found) >= VISITED:
                        return found
                    found[neighbour.row] = step
                    following.append(neighbour.row)
        edge = following
    return found


def _seeds(settings: Settings) -> int:
    return {"top1": 1, "topK": settings.seed_k or 0, "none": 0}[settings.seed_selection]
