"""Whether messages or vectors changed since Tantivy and the vectors were opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engines.contract.errors import SearchError
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.pipeline.plan import Rung

KEPT_BY_THE_STORE = frozenset({Rung.FTS5, Rung.LIKE})
"""Engines that see each change: triggers fill FTS5, and LIKE reads the table itself."""


def never(_: Rung) -> str:
    """Say of a service whose messages cannot change that it is up to date."""
    return ""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What was there when the indexes were opened."""

    generation: Callable[[], tuple[int, int]]
    vectors: Path
    opened: tuple[tuple[int, int], tuple[int, ...]]

    @classmethod
    def since_now(cls, generation: Callable[[], tuple[int, int]], vectors: Path) -> Freshness:
        """Remember what is there now; ``generation`` counts the changes of the message store."""
        return cls(generation, vectors, (generation(), _stamp(vectors)))

    def behind(self, rung: Rung) -> str:
        """Say why the answer of ``rung`` may miss a change; empty where it cannot."""
        if rung in KEPT_BY_THE_STORE:
            return ""
        generation, stamp = self.opened
        try:
            with faults.known():
                if self.generation() != generation:
                    return "index_stale: messages changed after the index was opened"
        except SearchError as exc:
            return f"index_stale: changes of the messages cannot be counted: {exc}"
        if rung is not Rung.TANTIVY and _stamp(self.vectors) != stamp:
            return "index_stale: the vector file was replaced after it was opened"
        return ""


def _stamp(path: Path) -> tuple[int, ...]:
    """Tell one file from another of the same name; empty where there is none."""
    try:
        seen = path.stat()
    except OSError:
        return ()
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
