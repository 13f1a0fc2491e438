"""Divergences that somebody has looked at: which are accepted, why, by whom and until when.

An accepted divergence is still counted and shown. It does not block a step, until its day has
passed. Then it blocks once more, so that nothing is accepted for ever by being forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cached_property

from harness.agreement.classes import UNCOMPARED, Class
from harness.shadow.log.record import AGREED

ACCEPTABLE = frozenset(Class) - UNCOMPARED - AGREED
"""Classes that can be accepted. A failure can be for one query only, never as a class."""


class Standing(StrEnum):
    """What the suppression list says of a divergence."""

    ACCEPTED = "accepted"
    EXPIRED = "expired"
    """It was accepted, and the day has passed: it blocks again."""
    OPEN = "open"
    """No one has accepted it."""
    FAILED = "failed"
    """An arm failed, which is not a divergence: how often it may is a bound of its own."""


BLOCKING = frozenset({Standing.EXPIRED, Standing.OPEN})


@dataclass(frozen=True, slots=True)
class Accepted:
    """One entry. What it names must all fit: a class, a slice, one query, or several of these."""

    reason: str
    by: str
    until: date
    """The last day, UTC, on which it counts."""
    kind: Class | None = None
    slice: str = ""
    """Empty for every slice."""
    query: str = ""
    """Key of the only query that is meant; empty for every query."""

    def fits(self, kind: Class, slices: Collection[str], query: str) -> bool:
        """Tell whether a divergence is one that the entry is about, whatever the day."""
        return (
            self.kind in {None, kind}
            and (not self.slice or self.slice in slices)
            and (not self.query or self.query == query)
        )

    @property
    def about(self) -> str:
        """What is accepted, in words."""
        parts = [
            f"class {self.kind}" if self.kind else "",
            f"slice {self.slice}" if self.slice else "",
            f"query {self.query}" if self.query else "",
        ]
        return ", ".join(filter(None, parts))

    def toml(self) -> str:
        """Write the entry as the suppression list has it."""
        texts = {"class": self.kind or "", "slice": self.slice, "query": self.query}
        texts |= {"reason": self.reason, "by": self.by}
        lines = [f"{key} = {_quoted(text)}" for key, text in texts.items() if text]
        return "\n".join(["[[accepted]]", *lines, f"until = {self.until.isoformat()}", ""])


@dataclass(frozen=True)
class Suppressions:
    """All entries, in the order of the file."""

    entries: tuple[Accepted, ...]

    @cached_property
    def _by_query(self) -> dict[str, list[Accepted]]:
        found: dict[str, list[Accepted]] = {}
        for entry in self.entries:
            found.setdefault(entry.query, []).append(entry)
        return found

    def fitting(self, kind: Class, slices: Collection[str], query: str) -> Iterable[Accepted]:
        """Give the entries that are about a divergence, those of its query first."""
        known = self._by_query
        named = known.get(query, []) if query else []
        return (e for e in [*named, *known.get("", [])] if e.fits(kind, slices, query))

    def standing(
        self, kind: Class, slices: Collection[str], query: str, *, today: date
    ) -> Standing:
        """Say whether a divergence is accepted on the day ``today`` (UTC)."""
        said = Standing.OPEN
        for entry in self.fitting(kind, slices, query):
            if today <= entry.until:
                return Standing.ACCEPTED
            said = Standing.EXPIRED
        return said


def _quoted(text: str) -> str:
    """Write a basic string of TOML; JSON's escapes are all among TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
