"""What to do with a pool that is judged, in commands that the reader can paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.stages.judging.panel import panel


@dataclass(frozen=True, slots=True)
class Advice:
    """A command, and what it is for."""

    words: str
    command: str


def afterwards(pool: Path, harness: str) -> tuple[Advice, ...]:
    """Say what follows for a pool; a panel's own pools go through the panel, never past it.

    ``harness`` is the program as the reader calls it.
    """
    found = _of_a_panel(pool) if pool.with_name(panel.FILE).is_file() else _of_one(pool)
    return tuple(Advice(words, f"{harness} {shlex.join(command)}") for words, command in found)


def _of_one(pool: Path) -> Iterator[tuple[str, list[str]]]:
    yield (
        "Take the judgements into a data set that has these documents and queries:",
        ["judge", str(pool), "--merge", "NAME", "--by", "WHO"],
    )
    yield (
        "Or make a data set of them, with your own files in place of the first two:",
        ["import", "jsonl", "corpus.jsonl", "queries.jsonl", str(pool), "--name", "NAME"],
    )


def _of_a_panel(pool: Path) -> Iterator[tuple[str, list[str]]]:
    folder = str(pool.parent)
    if pool.stem not in panel.RESERVED:
        yield (
            "See how far the panel is, and how far its people agree:",
            ["panel", "report", folder],
        )
    yield (
        "Write one grade a pair when every part is judged:",
        ["panel", "settle", folder, "--out", "settled.qrels"],
    )
