"""One answer of a server, read strictly: what is malformed is a failure, never an empty page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Malformed(Exception):
    """The server's answer is not the one that section 6 describes."""


class Part(BaseModel):
    """What is read of an answer; a server may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Item(Part):
    """A message found. A server that gives no scores gives an order all the same."""

    id: int | str
    score: float | None = None
    raw_score: float | None = None


class Explain(Part):
    """Who answered, as far as section 5 says it."""

    engine: str | None = None
    actual_mode: str | None = None
    mode_downgraded: bool = False
    used_like_fallback: bool = False
    cursor_invalidated: bool = False
    note: str = ""


class Diagnostics(Part):
    """Present where an answer is degraded, or the query says nothing."""

    degraded: bool = True
    reason: str = ""


class ServedBy(Part):
    """Which index answered, where a server says so."""

    fingerprint: str
    documents: int | None = None
    corpus_sha256: str | None = None


class Page(Part):
    """One page."""

    result: list[Item]
    next_cursor: str | None = None
    explain: Explain | None = None
    diagnostics: Diagnostics | None = None
    served_by: ServedBy | None = None

    @property
    def note(self) -> str:
        """How the query was understood or degraded, in the server's words."""
        if self.diagnostics is not None:
            return self.diagnostics.reason or "degraded"
        return self.explain.note if self.explain else ""

    def is_of(self, engine: str, mode: str, version: str) -> bool:
        """Tell whether ``engine`` answered, fully, in ``mode`` (any where empty), and says so."""
        said = self.explain
        if said is None or said.engine != engine:
            return False
        if self.diagnostics is not None and self.diagnostics.degraded:
            return False
        if mode and said.actual_mode != mode:
            return False
        if said.mode_downgraded or said.used_like_fallback or said.cursor_invalidated:
            return False
        return self.served_by is None or self.served_by.fingerprint == version


def read(answer: Mapping[str, Any], limit: int) -> Page:
    """Read a page of at most ``limit`` messages.

    Raises:
        Malformed: a part is missing or of another type, there are more messages than requested. Or
        a
            score is missing beside others or is not a number, or a page that is not full has a
            next.
    """
    try:
        page = Page.model_validate(answer)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Malformed(f"the answer's {place}: {first['msg']}") from exc
    if len(page.result) > limit:
        raise Malformed(f"{len(page.result)} messages came, {limit} were requested")
    if page.next_cursor is not None and not page.result:
        raise Malformed("an empty page has a next_cursor")
    scored = [item.score is not None for item in page.result]
    if any(scored) and not all(scored):
        raise Malformed("some messages have a score, some have not")
    numbers = [n for i in page.result for n in (i.score, i.raw_score) if n is not None]
    if not all(map(math.isfinite, numbers)):
        raise Malformed("a score is NaN or infinite")
    return page
