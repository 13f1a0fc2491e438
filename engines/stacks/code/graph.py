"""What units have to do with each other: who calls, uses, imports, holds or names whom.

A name leads to a unit by its qualified name; only where none bears it, by its bare name, if few do.
Everything is bounded and nothing is left to chance: neighbours come in the order of their reasons,
then by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from engines.stacks.code.unit import Unit

MOST_NAMESAKES = 3
"""A bare name that more units bear leads to none of them."""
MOST_NEIGHBOURS = 64
"""A unit that everything calls has more; the first in order are kept."""
MOST_NAMES = 500
"""Names of one unit that are followed."""


class Reason(IntEnum):
    """Why two units belong together, the strongest first."""

    CALL = 0
    USAGE = 1
    EXPORT = 2
    """One holds the other: a class its methods, a module what it defines."""
    IMPORT = 3
    NAME_FALLBACK = 4
    """Only a bare name says so."""


class Neighbour(NamedTuple):
    """A unit beside another; sorts by reason, then by row."""

    reason: Reason
    row: int


class Graph:
    """Neighbours of every unit, in both directions; built from what the units say."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._full: dict[str, list[int]] = {}
        self._bare: dict[str, list[int]] = {}
        for row, unit in enumerate(units):
            if unit.facts.full:
                self._full.setdefault(unit.facts.full, []).append(row)
            if unit.facts.symbol:
                self._bare.setdefault(unit.facts.symbol, []).append(row)
        beside: list[dict[int, Reason]] = [{} for _ in units]
        for row, unit in enumerate(units):
            for reason, other in self._led(unit):
                if other != row:
                    for one, two in ((row, other), (other, row)):
                        beside[one][two] = min(reason, beside[one].get(two, reason))
        self._beside = [_kept(found) for found in beside]

    def neighbours(self, row: int) -> tuple[Neighbour, ...]:
        """Give at most ``MOST_NEIGHBOURS`` units beside one, the strongest reason first."""
        return self._beside[row]

    def degree(self, row: int) -> int:
        """Count the neighbours."""
        return len(self._beside[row])

    def _led(self, unit: Unit) -> Iterable[Neighbour]:
        facts = unit.facts
        holder = facts.full.rpartition(".")[0]
        said = (
            (Reason.CALL, facts.calls),
            (Reason.USAGE, (*facts.links, *facts.uses)),
            (Reason.EXPORT, (holder,) if holder else ()),
            (Reason.IMPORT, facts.imports),
        )
        for reason, names in said:
            for name in names[:MOST_NAMES]:
                exact = self._full.get(name, [])
                bare = [] if exact or reason > Reason.USAGE else self._fallback(name)
                yield from (Neighbour(reason, row) for row in exact[:MOST_NEIGHBOURS])
                yield from (Neighbour(Reason.NAME_FALLBACK, row) for row in bare)

    def _fallback(self, name: str) -> list[int]:
        found = self._bare.get(name.rpartition(".")[2], [])
        return found if len(found) <= MOST_NAMESAKES else []


def _kept(found: Mapping[int, Reason]) -> tuple[Neighbour, ...]:
    ordered = sorted(Neighbour(reason, row) for row, reason in found.items())
    return tuple(ordered[:MOST_NEIGHBOURS])
