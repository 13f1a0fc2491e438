"""Rounds of a load that do not count, summed up by what was wrong with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Objections(NamedTuple):
    """Rounds that do not count for one kind of reason."""

    rounds: int
    why: str
    """The reason; a number that differs from round to round is given from lowest to highest."""


def summed(objections: Sequence[str]) -> tuple[Objections, ...]:
    """Put texts together that differ in numbers alone, the most frequent first."""
    kinds: dict[str, list[str]] = {}
    for text in objections:
        kinds.setdefault(NUMBER.sub("#", text), []).append(text)
    found = [Objections(len(texts), _joined(texts)) for texts in kinds.values()]
    return tuple(sorted(found, key=lambda one: -one.rounds))


def _joined(texts: Sequence[str]) -> str:
    columns = zip(*(NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([_range(numbers) for numbers in columns])
    return NUMBER.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if low == high else f"{low} to {high}"
