"""Context expansion: what belongs to the hits, behind them and marked (section "Phase 11").

It never enters a ranking: the hits are chosen and ordered before. Caps are explicit, and so is
that they cut something off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engines.stacks.code.catalog import Rows
from engines.stacks.code.config import Context as Settings
from engines.stacks.code.graph import Graph, Reason

MOST_LOOKED_AT = 25
"""Neighbours of one hit that are looked at, for each that may be shown."""


class ContextUnit(NamedTuple):
    """A unit shown for the sake of a hit."""

    row: int
    of: int
    """Row of the hit."""
    reason: Reason


class Expanded(NamedTuple):
    """What is shown beside the hits, in order, and whether a cap left something out."""

    beside: tuple[ContextUnit, ...]
    truncated: bool


def expanded(
    hits: Sequence[int], graph: Graph, settings: Settings, allowed: Rows | None
) -> Expanded:
    """Look beside each hit in its order, strongest reason first, then by row.

    No unit comes twice, none that is a hit, and none that the filters do not allow.
    """
    passing = None if allowed is None else frozenset(allowed.tolist())
    shown = set(hits)
    context_units: list[ContextUnit] = []
    truncated = False
    for hit in hits:
        mine = 0
        neighbours = graph.neighbours(hit)
        truncated |= len(neighbours) > MOST_LOOKED_AT * settings.per_hit
        for neighbour in neighbours[: MOST_LOOKED_AT * settings.per_hit]:
            if neighbour.row in shown or (passing is not None and neighbour.row not in passing):
                continue
            if mine == settings.per_hit or len(context_units) == settings.total:
                truncated = True
                break
            shown.add(neighbour.row)
            context_units.append(ContextUnit(neighbour.row, hit, neighbour.reason))
            mine += 1
    return Expanded(tuple(context_units), truncated)
