"""The list of planted faults: small changes of the code that named tests must notice.

A file of ``planted/`` is a room of the code. What is in a row: ``id``; ``file`` and ``old``, a
text that stands in it once; ``new``, what is put there; ``tests``, which are to fail then; ``why``,
what would go wrong unseen. ``survives`` is the reason of one that no test can notice. ``rows`` are
the promises of docs/contract.md that it breaks; ``promise`` is the one of docs/trust.md.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("planted")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault, and the tests that are to see it."""

    id: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str
    survives: str = ""
    rows: tuple[str, ...] = ()
    promise: str = ""

    def spoilt(self, text: str) -> str:
        """Put the fault into the text of its file.

        Raises:
            LookupError: the text to be changed does not stand there exactly once.
        """
        if (found := text.count(self.old)) != 1:
            raise LookupError(f"{self.id}: in {self.file} its text stands {found} times, not once")
        return text.replace(self.old, self.new)


@cache
def mutants() -> tuple[Mutant, ...]:
    """Give all of the list, room by room."""
    rooms = [tomllib.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.toml"))]
    found = [one for room in rooms for one in room["mutant"]]
    return tuple(
        Mutant(**{**one, "tests": tuple(one["tests"]), "rows": tuple(one.get("rows", ()))})
        for one in found
    )
