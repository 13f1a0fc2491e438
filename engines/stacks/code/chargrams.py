"""Which texts may hold a pattern, by three characters at a time; never says no where it is yes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engines.stacks.code.filters import folded, pattern

SIZE = 3
Rows = NDArray[np.int64]
_TOO_CLEVER = re.compile(r"[\\|()\[\]{}]")
_LITERAL = re.compile(r"[^.^$*+?]+")


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
