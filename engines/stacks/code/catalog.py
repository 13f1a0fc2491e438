"""All units of an index in memory, and which of them pass the filters.

Filters come before ranking: what the catalog allows gates the words, the vectors and the graph.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.stacks.code import filters as asked
from engines.stacks.code.chargrams import Chargrams
from engines.stacks.code.filters import Filters
from engines.stacks.code.unit import Facts, Mode, Risk, Texts, Unit
from harness.core.files import replacing
from harness.core.formats import json_of
from harness.core.reading import numbered

Rows = NDArray[np.int64]
FILE = "units.jsonl"


@dataclass(frozen=True, slots=True)
class Entry:
    """A unit, and its fields as the terms that both backends index."""

    unit: Unit
    terms: Texts


class Catalog:
    """Entries in byte order of their documents' ids; an entry's row is its number everywhere."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)
        units = [entry.unit for entry in self.entries]
        rows: dict[tuple[str, str], list[int]] = {}
        for at, unit in enumerate(units):
            rows.setdefault(("mode", unit.mode), []).append(at)
            for name in asked.WHOLE:
                for value in asked.values(unit, name):
                    rows.setdefault((name, value), []).append(at)
        self._rows = {key: np.array(found, dtype=np.int64) for key, found in rows.items()}
        self._grams = {
            name: Chargrams([text(unit) for unit in units]) for name, text in asked.PATTERNS.items()
        }
        self.doc_ids = tuple(unit.doc_id for unit in units)

    def __len__(self) -> int:
        return len(self.entries)

    def modes(self) -> tuple[Mode, ...]:
        """Modes that have units, in the order of ``Mode``."""
        return tuple(mode for mode in Mode if ("mode", mode) in self._rows)

    def allowed(self, mode: Mode, filters: Filters) -> Rows | None:
        """Rows, ascending, of a mode that pass the filters; None where every unit does.

        The lists of values and of characters narrow, and what they leave is looked at one by one.
        """
        narrow = [] if mode is Mode.MIXED else [self._of("mode", mode)]
        given = filters.given()
        for name, value in given.items():
            found = (
                self._grams[name].narrowed(value)
                if name in self._grams
                else self._of(name, asked.folded(value, name))
            )
            if found is not None:
                narrow.append(found)
        if not given:
            whole = not narrow or len(narrow[0]) == len(self)
            return None if whole else narrow[0]
        left = np.arange(len(self), dtype=np.int64)
        for rows in sorted(narrow, key=len):
            left = np.intersect1d(left, rows, assume_unique=True)
        exact = [row for row in left.tolist() if asked.passes(self.entries[row].unit, given)]
        return np.array(exact, dtype=np.int64)

    def _of(self, name: str, value: str) -> Rows:
        return self._rows.get((name, value), np.zeros(0, dtype=np.int64))


def write(path: Path, entries: Iterable[Entry]) -> None:
    """Write entries, one JSON object a line."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for entry in entries:
            file.write(json.dumps([asdict(entry.unit), entry.terms]) + "\n")


def read(path: Path) -> Catalog:
    """Read what ``write`` wrote.

    Raises:
        OSError: missing file.
        ValueError, TypeError, KeyError: it is not what ``write`` writes.
    """
    return Catalog([_entry(*json_of(line)) for _, line in numbered(path)])


def _entry(unit: dict[str, object], terms: list[str]) -> Entry:
    facts: dict[str, object] = dict(unit.pop("facts"))  # type: ignore[call-overload]  # checked by Facts below
    risks = tuple(Risk(*risk) for risk in facts.pop("risks"))  # type: ignore[attr-defined]  # as above
    plain = {
        key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
    }
    texts = Texts(*unit.pop("texts"))  # type: ignore[misc]  # as above
    mode = Mode(str(unit.pop("mode")))
    known = Facts(**plain, risks=risks)  # type: ignore[arg-type]  # as above
    return Entry(Unit(**unit, mode=mode, texts=texts, facts=known), Texts(*terms))  # type: ignore[arg-type]  # as above
