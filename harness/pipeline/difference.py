"""The first value in which two things that JSON can hold differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

NAMES = ("gate", "step", "name", "dataset", "model")
"""Keys by which an element of a list is known."""
FIRST = ("datasets", "steps", "findings", "gate", "verdict", "estimate", "bound")
"""Keys that are looked at before the others: a gate first, and of it what it decides."""
ABSENT = "nothing"
LONGEST = 200


class StoredDifference(NamedTuple):
    """One value that was stored, and what is derived in its place; both as JSON."""

    where: str
    """From the outside in, e.g. ``steps.tantivy.findings.Quality.verdict``."""
    stored: str
    derived: str

    def __str__(self) -> str:
        """Write it as one clause."""
        return f"{self.where}: stored {self.stored}, derived {self.derived}"


def first_difference(stored: Any, derived: Any) -> StoredDifference | None:  # noqa: ANN401  of JSON
    """Return the first value in which the two differ; None where they are equal."""
    return None if stored is derived else next(_differences("", stored, derived), None)


def _differences(where: str, stored: Any, derived: Any) -> Iterator[StoredDifference]:  # noqa: ANN401
    if isinstance(stored, Mapping) and isinstance(derived, Mapping):
        for key in sorted({*stored, *derived}, key=_place):
            pair = stored.get(key, ABSENT), derived.get(key, ABSENT)
            yield from _differences(f"{where}.{key}".lstrip("."), *pair)
    elif _is_list(stored) and _is_list(derived):
        for at, pair in enumerate(zip_longest(stored, derived, fillvalue=ABSENT)):
            yield from _differences(f"{where}.{_name(pair, at)}", *pair)
    elif stored != derived or type(stored) is not type(derived):
        yield StoredDifference(where, _short(stored), _short(derived))


def _place(key: str) -> tuple[int, str]:
    return (FIRST.index(key) if key in FIRST else len(FIRST), key)


def _is_list(value: Any) -> bool:  # noqa: ANN401  of JSON
    return isinstance(value, Sequence) and not isinstance(value, str)


def _name(pair: Sequence[Any], at: int) -> str:
    named = (one[key] for one in pair if isinstance(one, Mapping) for key in NAMES if key in one)
    return str(next((name for name in named if isinstance(name, str)), at))


def _short(value: Any) -> str:  # noqa: ANN401  of JSON
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
