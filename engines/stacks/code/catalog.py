"""All units of an index in memory, and which of them pass the filters.

Filters come before ranking: what the catalog allows gates the words, the vectors and the graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.stacks.code import filters as asked
from engines.stacks.code.filters import Filters, folded, pattern
from engines.stacks.code.unit import Facts, Mode, Risk, Texts, Unit
from harness.core.files import replacing
from harness.core.formats import json_of
from harness.core.reading import numbered

SIZE = 3
_TOO_CLEVER = re.compile(r"[\\|()\[\]{}]")
_LITERAL = re.compile(r"[^.^$*+?]+")
Rows = NDArray[np.int64]
FILE = "units.jsonl"


@dataclass(frozen=True, slots=True)
class Entry:
    """A unit, and its fields as the terms that both backends index."""

    unit: Unit
    terms: Texts


class Catalog:
    """Entries in byte order of their documents' ids; an entry's row is its number everywhere.

    ``modes`` and ``doc_ids`` spare reading the entries where nothing else is needed.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        modes: Sequence[str] | None = None,
        doc_ids: Sequence[str] | None = None,
    ) -> None:
        self.entries = entries
        of = [entry.unit.mode.value for entry in entries] if modes is None else modes
        rows: dict[str, list[int]] = {}
        for at, mode in enumerate(of):
            rows.setdefault(mode, []).append(at)
        self._by_mode = {key: np.array(found, dtype=np.int64) for key, found in rows.items()}
        known = [entry.unit.doc_id for entry in entries] if doc_ids is None else doc_ids
        self.doc_ids = tuple(known)

    def __len__(self) -> int:
        return len(self.doc_ids)

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str], Rows]:
        """Rows by what a filter compares whole."""
        rows: dict[tuple[str, str], list[int]] = {}
        for at, entry in enumerate(self.entries):
            for name in asked.WHOLE:
                for value in asked.values(entry.unit, name):
                    rows.setdefault((name, value), []).append(at)
        return {key: np.array(found, dtype=np.int64) for key, found in rows.items()}

    @cached_property
    def _grams(self) -> Mapping[str, Chargrams]:
        units = [entry.unit for entry in self.entries]
        return {
            name: Chargrams([text(unit) for unit in units]) for name, text in asked.PATTERNS.items()
        }

    def modes(self) -> tuple[Mode, ...]:
        """Modes that have units, in the order of ``Mode``."""
        return tuple(mode for mode in Mode if mode in self._by_mode)

    def values(self, name: str) -> tuple[str, ...]:
        """List what units have of a filter that compares whole values, folded and in order."""
        return tuple(sorted(value for of, value in self._rows if of == name))

    def allowed(self, mode: Mode, filters: Filters) -> Rows | None:
        """Rows, ascending, of a mode that pass the filters; None where every unit does.

        The lists of values and of characters narrow, and what they leave is looked at one by one.
        """
        nothing = np.zeros(0, dtype=np.int64)
        narrow = [] if mode is Mode.MIXED else [self._by_mode.get(mode, nothing)]
        given = filters.given()
        for name, value in given.items():
            found = (
                self._grams[name].narrowed(value)
                if name in asked.PATTERNS
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
            file.write(written(entry) + "\n")


def read(path: Path) -> Catalog:
    """Read what ``write`` wrote.

    Raises:
        OSError: missing file.
        ValueError, TypeError, KeyError: it is not what ``write`` writes.
    """
    return Catalog([entry_of(*json_of(line)) for _, line in numbered(path)])


def written(entry: Entry) -> str:
    """Write an entry as JSON."""
    return json.dumps([asdict(entry.unit), entry.terms])


def entry_of(unit: dict[str, object], terms: list[str]) -> Entry:
    """Read what ``written`` wrote."""
    facts: dict[str, object] = dict(unit.pop("facts"))  # type: ignore[call-overload]  # checked by Facts below
    risks = tuple(Risk(*risk) for risk in facts.pop("risks"))  # type: ignore[attr-defined]  # as above
    plain = {
        key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
    }
    texts = Texts(*unit.pop("texts"))  # type: ignore[misc]  # as above
    mode = Mode(str(unit.pop("mode")))
    known = Facts(**plain, risks=risks)  # type: ignore[arg-type]  # as above
    return Entry(Unit(**unit, mode=mode, texts=texts, facts=known), Texts(*terms))  # type: ignore[arg-type]  # as above


class Chargrams:
    """Texts by the runs of three characters that stand in them, after folding."""

    def __init__(self, texts: Sequence[str]) -> None:
        rows: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            for gram in _grams(folded(text)):
                rows.setdefault(gram, []).append(at)
        self._rows = {gram: np.array(found, dtype=np.int64) for gram, found in rows.items()}

    def narrowed(self, value: str) -> Rows | None:
        """Give the rows, ascending, that may match a filter's value; None where all may."""
        wanted = set[str]().union(*(_grams(folded(run)) for run in literals(value)))
        if not wanted:
            return None
        lists = sorted((self._rows.get(gram, _NONE) for gram in wanted), key=len)
        found = lists[0]
        for other in lists[1:]:
            found = np.intersect1d(found, other, assume_unique=True)
        return found


_NONE = np.zeros(0, dtype=np.int64)


def literals(value: str) -> list[str]:
    """Find runs of characters that stand in every text a filter's value matches.

    Of a regular expression only what needs no understanding is taken. One with groups, classes,
    escapes, counts or choices gives nothing, and a character before ``?`` or ``*`` may be absent.
    """
    if pattern(value) is None:
        return [value]
    inner = value[1:-1]
    if _TOO_CLEVER.search(inner):
        return []
    found: list[str] = []
    for run in _LITERAL.finditer(inner):
        optional = inner[run.end() : run.end() + 1] in {"?", "*"}
        found.append(run[0][:-1] if optional else run[0])
    return found


def _grams(text: str) -> set[str]:
    return {text[at : at + SIZE] for at in range(len(text) - SIZE + 1)}
