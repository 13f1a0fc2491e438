"""Records: TOML, JSON and the like, read into the names and the values that stand in them."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engines.stacks.code.unit import Facts, Texts

MOST_ENTRIES = 2_000
"""Entries beyond these are not read; a table of data is not a document."""
DEEPEST = 30


def read(title: str, text: str, ext: str, kind: str) -> tuple[Texts, Facts] | None:
    """Read a record: keys are its comment field, values its body; None where it does not parse.

    ``ext`` is ``toml``, ``json`` or ``csv``; other endings are not of these formats.
    """
    load = READERS.get(ext)
    if load is None:
        return None
    try:
        entries = [entry for entry, _ in zip(_flat(load(text), 0), range(MOST_ENTRIES))]  # noqa: B905  the cap ends it
    except (ValueError, RecursionError, csv.Error):
        return None
    keys = tuple(dict.fromkeys(key for key, _ in entries if key))
    body = "\n".join(value for _, value in entries if value)
    facts = Facts(type=kind or "record", params=keys)
    return Texts(name=title, comment="\n".join(keys), body=body), facts


def is_record(text: str) -> bool:
    """Tell whether a text without a name that says so is a record: a JSON object or list."""
    return text.lstrip()[:1] in {"{", "["} and read("", text, "json", "") is not None


def _json(text: str) -> Any:  # noqa: ANN401  whatever stands there
    return json.loads(text)


def _rows(text: str) -> Any:  # noqa: ANN401  as above
    return list(csv.DictReader(io.StringIO(text)))


READERS: Mapping[str, Callable[[str], Any]] = {
    "toml": tomllib.loads,
    "json": _json,
    "csv": _rows,
}


def _flat(value: Any, depth: int) -> Iterator[tuple[str, str]]:  # noqa: ANN401  as above
    """Yield (key, value) of everything inside; deeper than ``DEEPEST`` is not read."""
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key), ""
            yield from _flat(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, depth + 1)
    elif value is not None:
        yield "", str(value)
