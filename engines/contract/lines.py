"""Where in an arm's TOML file a key or a value stands, so that a message can name the line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.core.reading import text_of


def of_value(path: Path, name: str) -> int | None:
    """First line, from 1, that assigns the text ``name`` to a key."""
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if line.partition("=")[2].strip().startswith((f'"{name}"', f"'{name}'")):
            return number
    return None


def of_key(path: Path, key: Sequence[str]) -> int | None:
    """Line, from 1, where ``key`` is assigned to; else that of the innermost table around it."""
    table: list[str] = []
    around: dict[int, int] = {}
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("["):
            table = bare.strip("[] ").split(".")
            here = table
        else:
            here = [*table, line.split("=")[0].strip()]
        if here == list(key):
            return number
        if bare.startswith("[") and here == list(key[: len(here)]):
            around[len(here)] = number
    return around[max(around)] if around else None
