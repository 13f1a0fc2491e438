"""The list of planted faults: small changes of the code that named tests must notice.

A file of ``planted/`` is a room of the code, and a table of it a fault by its name: ``at`` and
``edit``, as ``plant.py`` reads them; ``by``, the test functions that are to fail then; ``why``,
what would go wrong unseen. ``survives`` is the reason of one that no test can notice. ``rows`` are
the promises of docs/contract.md that it breaks; ``promise`` is the one of docs/trust.md.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.source import find_test

FOLDER = Path(__file__).with_name("planted")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault, and the tests that are to see it."""

    id: str
    at: str
    edit: str
    by: tuple[str, ...]
    why: str
    survives: str = ""
    rows: tuple[str, ...] = ()
    promise: str = ""

    @property
    def tests(self) -> tuple[str, ...]:
        """Where its tests stand."""
        return tuple(map(find_test, self.by))


@cache
def mutants() -> tuple[Mutant, ...]:
    """Return all of the list, room by room."""
    rooms = [tomllib.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.toml"))]
    return tuple(
        Mutant(**{"id": name, **told, "by": tuple(told["by"]), "rows": tuple(told.get("rows", ()))})
        for room in rooms
        for name, told in room.items()
    )
