"""Page tokens: where the last page ended (section 4.1)."""

from __future__ import annotations

import math
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from operator import sub

LARGEST_ID = 2**63 - 1
LEAST_ID = -(2**63)
_LOW, _MORE, _BITS = 0x7F, 0x80, 7
_TOKEN = re.compile(
    r"s([0-9a-f]{16}):i(-?[0-9]{1,19})(?::e([a-z0-9]+)(?::q([0-9a-f]{16}):x([A-Za-z0-9_-]+))?)?",
    re.ASCII,
)
QUERY_DIGITS = 16
"""Hexadecimal digits that a query is told by."""


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
    query: str = ""
    """Digits of the query that the pages are of; empty in a token that names none."""
    seen: frozenset[int] = frozenset()
    """What was examined on all pages up to here, shown or not."""

    def encode(self) -> str:
        """Write ``s<16 hexadecimal digits of the bits>:i<id>[:e<engine>[:q<query>:x<ids>]]``.

        The ids are written as ``packed`` does.
        """
        bits = struct.pack(">d", self.score).hex()
        tail = f":e{self.engine}" if self.engine else ""
        pages = f":q{self.query}:x{packed(self.seen)}" if self.query else ""
        return f"s{bits}:i{self.message_id}{tail}{pages}"

    @classmethod
    def decode(cls, token: str) -> SearchCursor | None:
        """Read a token; None where it is malformed, its score not finite or its engine unknown."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        (score,) = struct.unpack(">d", bytes.fromhex(match[1]))
        message_id = int(match[2])
        if not math.isfinite(score) or abs(message_id) > LARGEST_ID:
            return None
        if match[3] is None:
            return cls(score, message_id)
        if match[3] not in {engine.value for engine in CursorEngine}:
            return None
        try:
            seen = unpacked(match[5]) if match[5] else frozenset[int]()
        except ValueError:
            return None
        return cls(score, message_id, CursorEngine(match[3]), match[4] or "", seen)

    def goes_on(self, engine: CursorEngine, query: str) -> bool:
        """Whether it is of these pages; one that names no engine or no query may be of any."""
        return self.engine in {None, engine} and self.query in {"", query}


def packed(ids: Iterable[int]) -> str:
    """Write ids, in any order; none twice."""
    ordered = sorted(ids)
    gaps = map(sub, ordered, chain((LEAST_ID,), ordered))
    return urlsafe_b64encode(b"".join(map(_written, gaps))).rstrip(b"=").decode()


@lru_cache(maxsize=1 << 14)
def _written(gap: int) -> bytes:
    """Write a gap between ids, its low bits first; most are small and come again."""
    out = bytearray()
    while gap > _LOW:
        out.append(gap & _LOW | _MORE)
        gap >>= _BITS
    out.append(gap)
    return bytes(out)


def unpacked(text: str) -> frozenset[int]:
    """Read what ``packed`` wrote.

    Raises:
        ValueError: it is something else.
    """
    found = frozenset(_ids(urlsafe_b64decode(text + "=" * (-len(text) % 4))))
    if packed(found) != text:
        raise ValueError("not a list of ids")
    return found


def _ids(data: bytes) -> Iterator[int]:
    last, gap, shift = LEAST_ID, 0, 0
    for byte in data:
        gap |= (byte & _LOW) << shift
        shift += _BITS
        if byte & _MORE:
            if shift > _BITS * 9:
                raise ValueError("an id has 64 bits at most")
            continue
        last, gap, shift = last + gap, 0, 0
        if last > LARGEST_ID:
            raise ValueError("an id has 64 bits at most")
        yield last
