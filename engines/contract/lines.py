"""Where a key or a value of an arm's file stands, for messages about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.core.formats import toml_of
from harness.core.reading import Malformed, text_of


def line_of_value(path: Path, name: str) -> int | None:
    """First line, from 1, that assigns the text ``name`` to a key."""
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        if line.partition("=")[2].strip().startswith((f'"{name}"', f"'{name}'")):
            return number
    return None


def line_of_key(path: Path, key: Sequence[str]) -> int | None:
    """Line, from 1, where ``key`` is assigned to; else that of the innermost table around it."""
    table: list[str] = []
    around: dict[int, int] = {}
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        written = _keys(line.removesuffix("\r"))
        is_table = line.lstrip().startswith("[") and bool(written)
        here = written if is_table else [*table, *written]
        if written and here == list(key):
            return number
        if is_table:
            table = here
            if here == list(key[: len(here)]):
                around[len(here)] = number
    return around[max(around)] if around else None


def _keys(line: str) -> list[str]:
    """Read the keys of a line of TOML: those of a table, or those that are assigned to."""
    for text in (f"{line.partition('=')[0]}= 0", line):
        try:
            found: Any = toml_of(text)
        except Malformed:
            continue
        keys = []
        while isinstance(found, dict) and found:
            key, found = next(iter(found.items()))
            keys.append(key)
            found = found[0] if isinstance(found, list) else found
        return keys
    return []
