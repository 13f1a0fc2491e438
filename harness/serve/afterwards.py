"""What to do with a pool that is judged, in commands that the reader can paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Advice:
    """A command, and what it is for."""

    words: str
    command: str


def afterwards(pool: Path, harness: str) -> tuple[Advice, ...]:
    """Return what follows for a pool; ``harness`` is the program as the reader calls it."""
    return tuple(
        Advice(words, f"{harness} {shlex.join(command)}") for words, command in _commands(pool)
    )


def _commands(pool: Path) -> Iterator[tuple[str, list[str]]]:
    yield (
        "Take the judgements into a data set that has these documents and queries:",
        ["judge", str(pool), "--merge", "NAME", "--by", "WHO"],
    )
    yield (
        "Or make a data set of them, with your own files in place of the first two:",
        ["import", "jsonl", "corpus.jsonl", "queries.jsonl", str(pool), "--name", "NAME"],
    )
