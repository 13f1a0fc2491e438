"""Page tokens: where the last page ended (section 4.1)."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from enum import StrEnum

_TOKEN = re.compile(
    r"s([0-9a-f]{16}):i(-?[0-9]{1,19})(?::e([a-z0-9]+))?(?::b(-?[0-9]{1,19}(?:,-?[0-9]{1,19}){0,3}))?",
    re.ASCII,
)
LARGEST_ID = 2**63 - 1
ANCHORS = 4
"""Hits before the last that a token names; a page begins after the nearest that is still there."""


class CursorEngine(StrEnum):
    """Who made a page, and of what kind of document; another's page cannot be continued."""

    LIKE = "like"
    FTS5 = "fts5"
    TANTIVY = "tantivy"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    HYBRID_RERANK = "rerank"
    AGENTS = "agents"
    AGENTS_LIKE = "agentslike"
    PROJECTS = "projects"
    PROJECTS_LIKE = "projectslike"


@dataclass(frozen=True, slots=True)
class SearchCursor:
    """Score and id of the last hit that was examined; V2 tokens name no engine."""

    score: float
    message_id: int
    engine: CursorEngine | None = None
    before: tuple[int, ...] = ()
    """Ids of the hits shown before it, the nearest first, ``ANCHORS`` at most."""

    def encode(self) -> str:
        """Write ``s<16 hexadecimal digits of the float's bits>:i<id>[:e<engine>][:b<ids>]``."""
        bits = struct.pack(">d", self.score).hex()
        tail = f":e{self.engine}" if self.engine else ""
        anchors = f":b{','.join(map(str, self.before[:ANCHORS]))}" if self.before else ""
        return f"s{bits}:i{self.message_id}{tail}{anchors}"

    @classmethod
    def decode(cls, token: str) -> SearchCursor | None:
        """Read a token; None where it is malformed, its score not finite or its engine unknown."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        (score,) = struct.unpack(">d", bytes.fromhex(found[1]))
        message_id = int(found[2])
        before = tuple(map(int, found[4].split(","))) if found[4] else ()
        if not math.isfinite(score) or any(abs(at) > LARGEST_ID for at in (message_id, *before)):
            return None
        if found[3] is None:
            return cls(score, message_id, None, before)
        known = {engine.value for engine in CursorEngine}
        if found[3] not in known:
            return None
        return cls(score, message_id, CursorEngine(found[3]), before)
