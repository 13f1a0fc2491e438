"""The first value in which two results differ, by the name that a person knows it by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from harness.core.scores import Scores

NAMES = ("gate", "step", "name", "dataset", "model")
"""Keys by which an element of a list is known."""
ABSENT = "nothing"
LONGEST = 200


class Difference(NamedTuple):
    """One value that was stored, and what is derived in its place; both as JSON."""

    where: str
    """From the outside in, e.g. ``steps.tantivy.findings.Quality.verdict``."""
    stored: str
    derived: str

    def __str__(self) -> str:
        """Say it in one clause."""
        return f"{self.where}: stored {self.stored}, derived {self.derived}"


def of_values(stored: Any, derived: Any) -> Difference | None:  # noqa: ANN401  of JSON
    """Compare two values that JSON can hold; None where they are equal."""
    return next(_unlike("", stored, derived), None)


def of_scores(stored: Mapping[str, Scores], derived: Mapping[str, Scores]) -> Difference | None:
    """Compare two tables of values by query, to the last bit; None where they are equal."""
    for name in sorted({*stored, *derived}):
        if name not in stored or name not in derived:
            return Difference(
                name, *("values" if name in of else ABSENT for of in (stored, derived))
            )
        rows = [_rows(of[name]) for of in (stored, derived)]
        for query_id in dict.fromkeys((*rows[0], *rows[1])):
            values = [row.get(query_id, ABSENT) for row in rows]
            if values[0] != values[1]:
                return Difference(f"{name} of query {query_id}", *values)
    return None


def _rows(scores: Scores) -> dict[str, str]:
    """Write each query's value, or why it has none."""
    values = {query_id: repr(value) for query_id, value in scores.by_query.items()}
    reasons = {query_id: why for why, ids in scores.undefined.items() for query_id in ids}
    return {**values, **reasons}


def _unlike(where: str, stored: Any, derived: Any) -> Iterator[Difference]:  # noqa: ANN401  of JSON
    if isinstance(stored, Mapping) and isinstance(derived, Mapping):
        for key in sorted({*stored, *derived}):
            yield from _unlike(
                f"{where}.{key}".lstrip("."), stored.get(key, ABSENT), derived.get(key, ABSENT)
            )
    elif _is_list(stored) and _is_list(derived):
        for at, pair in enumerate(zip_longest(stored, derived, fillvalue=ABSENT)):
            yield from _unlike(f"{where}.{_name(pair, at)}", *pair)
    elif stored != derived or type(stored) is not type(derived):
        yield Difference(where, _short(stored), _short(derived))


def _is_list(value: Any) -> bool:  # noqa: ANN401  of JSON
    return isinstance(value, Sequence) and not isinstance(value, str)


def _name(pair: Sequence[Any], at: int) -> str:
    for one in pair:
        for key in NAMES:
            if isinstance(one, Mapping) and isinstance(one.get(key), str):
                return str(one[key])
    return str(at)


def _short(value: Any) -> str:  # noqa: ANN401  of JSON
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
