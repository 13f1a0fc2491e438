"""From a query to what will be tried: filters, facets, pages, and the chain of engines."""

from __future__ import annotations

import logging
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, chain
from operator import attrgetter, sub
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BadFile, UnknownName
from harness.core.reading import Malformed, text_of
from harness_engines.lexical.terms import words_in
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.contract import DocKind, Filters, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.faults import Stamp, stamp

MAX_WORDS = 200
"""Words that are searched for as they were typed. Of a longer text each word counts once."""
_PIECE = re.compile(r'[+-]?"[^"]*"|[^\s"]+')
_BARE = re.compile(r'[+\-"]')


def bounded(text: str) -> tuple[str, str]:
    """Return what is searched for of a text, and a note where that is less than the text."""
    if len(text) <= MAX_WORDS or (total := len(words_in(text))) <= MAX_WORDS:
        return text, ""
    kept: dict[str, str] = {}
    left = MAX_WORDS
    for piece in _PIECE.findall(text):
        key = _BARE.sub("", piece).casefold()
        words = words_in(piece)
        if key in kept or not words:
            continue
        end = words[:left][-1].end()
        closing = '"' if '"' in piece[:end] else ""
        kept[key] = piece if len(words) <= left else piece[:end] + closing
        left -= len(words)
        if left <= 0:
            break
    said = f"{total} words: each was searched for once, and at most {MAX_WORDS}"
    return " ".join(kept.values()), said


FACETS = (
    "project_id", "product_id", "importance", "direction", "agent_name", "thread_id",
    "ack_required", "time_range", "sender_name", "recipient_name", "min_score",
)  # fmt: skip
"""Names of filters in the order of section 7.1."""
LARGEST_ID = 2**63 - 1
_TOKEN = re.compile(
    r"s([0-9a-f]{16}):i(-?[0-9]{1,19})(?::e([a-z0-9]+)(?::q([0-9a-f]{16}):x([0-9a-f_-]+))?)?",
    re.ASCII,
)
QUERY_DIGITS = 16
"""Hexadecimal digits that a query is told by."""


def pager(kind: DocKind, tier: FallbackTier) -> str:
    """Name who makes pages of a kind of document by a tier; another's page is not continued."""
    if kind is DocKind.MESSAGE:
        return str(tier)
    return f"{kind}s{'like' if tier is FallbackTier.LIKE else ''}"


class SearchCursor(NamedTuple):
    """Score and id of the last hit that was examined; V2 tokens name no engine."""

    score: float
    message_id: int
    engine: str = ""
    """Who made the page, by ``pager``."""
    query: str = ""
    """Digits of the query that the pages are of; empty in a token that names none."""
    seen: frozenset[int] = frozenset()
    """What was examined on all pages up to here, shown or not."""

    def encode(self) -> str:
        """Write ``s<16 hexadecimal digits of the bits>:i<id>[:e<engine>[:q<query>:x<ids>]]``."""
        bits = struct.pack(">d", self.score).hex()
        tail = f":e{self.engine}" if self.engine else ""
        pages = f":q{self.query}:x{packed(self.seen)}" if self.query else ""
        return f"s{bits}:i{self.message_id}{tail}{pages}"

    @classmethod
    def decode(cls, token: str) -> SearchCursor | None:
        """Read a token; None where it is malformed, or its score is not finite."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        (score,) = struct.unpack(">d", bytes.fromhex(match[1]))
        message_id = int(match[2])
        if not math.isfinite(score) or abs(message_id) > LARGEST_ID:
            return None
        try:
            seen = unpacked(match[5]) if match[5] else frozenset[int]()
        except ValueError:
            return None
        return cls(score, message_id, match[3] or "", match[4] or "", seen)

    def goes_on(self, engine: str, query: str) -> bool:
        """Whether it is of these pages; one that names no engine or no query may be of any."""
        return self.engine in {"", engine} and self.query in {"", query}


def packed(ids: Iterable[int]) -> str:
    """Write ids, in any order and none twice, as gaps in hexadecimal digits."""
    ordered = sorted(ids)
    return "_".join(["%x"] * len(ordered)) % (*map(sub, ordered, chain((0,), ordered)),)


def unpacked(text: str) -> frozenset[int]:
    """Read what ``packed`` wrote."""
    found = frozenset(accumulate(int(gap, 16) for gap in text.split("_")))
    if packed(found) != text:
        raise ValueError("not a list of ids")
    return found


class FallbackTier(StrEnum):
    """One way to answer; a chain is tried from its first tier down."""

    RERANK = "rerank"
    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    TANTIVY = "tantivy"
    FTS5 = "fts5"
    LIKE = "like"


class KillSwitch(StrEnum):
    """Values of SEARCH_ENGINE (section 1.3, and one for its fourth mode); unset gives no value."""

    FTS5 = "fts5"
    TANTIVY = "tantivy"
    SHADOW = "shadow"
    HYBRID = "hybrid"
    HYBRID_RERANK = "hybrid_rerank"

    @classmethod
    def read(cls, value: str | None) -> KillSwitch | None:
        """Read the environment's value."""
        if not value:
            return None
        if value not in {known.value for known in cls}:
            raise UnknownName("SEARCH_ENGINE", value, [known.value for known in cls])
        return cls(value)


SWITCH_LOG = logging.getLogger("engines.mail.switch")
NAME = "SEARCH_ENGINE"
HINT = f"Write one line {NAME}=fts5, tantivy, shadow, hybrid or hybrid_rerank"


def value_in(path: Path) -> str:
    """Read the value of ``SEARCH_ENGINE`` in a file of ``NAME=value`` lines; ``#`` is a comment."""
    try:
        lines = text_of(path).splitlines()
    except (OSError, Malformed) as exc:
        raise BadFile(path, f"cannot be read ({exc})", HINT) from exc
    said = [line.split("=", 1) for line in lines if line.strip() and not line.startswith("#")]
    values = [pair[-1].strip().strip("\"'") for pair in said if pair[0].strip() == NAME]
    if len(values) != 1:
        raise BadFile(path, f"sets {NAME} {len(values)} times", HINT)
    return values[0]


@dataclass(slots=True)
class SwitchFile:
    """The file, and what it said last; one that is spoilt later changes nothing but the log."""

    path: Path
    _seen: Stamp | None = field(init=False)
    _value: KillSwitch | None = field(init=False)

    def __post_init__(self) -> None:
        """Read the file."""
        self._seen = stamp(self.path)
        self._value = KillSwitch.read(value_in(self.path))

    def read(self) -> KillSwitch | None:
        """Return what the file says now, or said when it could last be read."""
        seen = stamp(self.path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._value = KillSwitch.read(value_in(self.path))
                SWITCH_LOG.warning("%s is now %s", NAME, self._value or "unset")
            except (BadFile, UnknownName) as exc:
                SWITCH_LOG.error("%s stays %s: %s", NAME, self._value or "unset", exc)
        return self._value


LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
WITHOUT_TANTIVY = (FallbackTier.FTS5, FallbackTier.LIKE)
OF_FTS5 = (KillSwitch.FTS5, KillSwitch.SHADOW)
CHAINS = {
    SearchMode.HYBRID_RERANK: (FallbackTier.RERANK, FallbackTier.HYBRID, *LEXICAL),
    SearchMode.HYBRID: (FallbackTier.HYBRID, *LEXICAL),
    SearchMode.SEMANTIC: (FallbackTier.SEMANTIC, *LEXICAL),
    SearchMode.LEXICAL: LEXICAL,
}
LIFTED = {
    KillSwitch.HYBRID: SearchMode.HYBRID,
    KillSwitch.HYBRID_RERANK: SearchMode.HYBRID_RERANK,
}
"""The mode in which a value of the switch serves a lexical query."""
MODE_OF = dict.fromkeys(LEXICAL, SearchMode.LEXICAL) | {
    chain[0]: mode for mode, chain in CHAINS.items()
}
"""The mode of a tier: that of the chain which begins with it, else words."""


def engine_chain(
    mode: SearchMode, switch: KillSwitch | None, kind: DocKind = DocKind.MESSAGE
) -> tuple[FallbackTier, ...]:
    """List what is tried for ``mode``, best first (section 1.2), under the kill switch."""
    if kind is not DocKind.MESSAGE or switch in OF_FTS5:
        return WITHOUT_TANTIVY
    return CHAINS[wanted(mode, switch, kind)]


def wanted(mode: SearchMode, switch: KillSwitch | None, kind: DocKind) -> SearchMode:
    """Mode that a query is served in when nothing is missing."""
    if switch is None or kind is not DocKind.MESSAGE or mode is not SearchMode.LEXICAL:
        return mode
    return LIFTED.get(switch, mode)


def lacking(query: SearchQuery, switch: KillSwitch | None) -> Iterator[str]:
    """Describe what of a query no tier of its chain can do, and why."""
    if query.doc_kind is not DocKind.MESSAGE:
        if query.mode is not SearchMode.LEXICAL:
            yield f"{query.mode}: only messages have vectors"
        if switch is KillSwitch.TANTIVY:
            yield f"{FallbackTier.TANTIVY}: holds only messages"
        if query.ranking is contract.RankingMode.RECENCY:
            yield "recency: only messages are sent at a time, so the order is by relevance"
    elif switch in OF_FTS5 and query.mode is not SearchMode.LEXICAL:
        yield f"SEARCH_ENGINE is {switch}"


_AS_ASKED = sorted({*contract.FILTERS} - {"product_projects", "importance", "direction"})
"""Filters that a query has under the same name."""
_OF_A_QUERY = attrgetter(*FACETS)
_UNASKED = _OF_A_QUERY(SearchQuery(""))


@dataclass(frozen=True, slots=True)
class MailPlan:
    """What a query asks for, once its conflicts are resolved."""

    filters: Filters
    facets: tuple[str, ...]
    """Names of the filters that are applied, in the order of section 7.1."""


def plan(query: SearchQuery, projects_of: Callable[[int], frozenset[int]]) -> MailPlan:
    """Resolve filters that contradict each other (section 7.2)."""
    if _OF_A_QUERY(query) == _UNASKED:
        return MailPlan(contract.UNFILTERED, ())
    if query.doc_kind is not DocKind.MESSAGE:
        filters = Filters(project_id=query.project_id)
    else:
        by_product = query.product_id is not None and query.project_id is None
        filters = Filters(
            product_projects=projects_of(query.product_id or 0) if by_product else None,
            importance=frozenset(query.importance),
            direction=query.direction if query.agent_name is not None else None,
            **{name: getattr(query, name) for name in _AS_ASKED},
        )
    asked = dict(zip(contract.FILTERS, contract.values_of(filters), strict=True))
    asked |= {"product_id": asked.pop("product_projects"), "min_score": query.effective_min_score}
    off = ({"importance": frozenset(), "time_range": contract.TimeRange()}).items()
    on = [name for name, said in asked.items() if said is not None and (name, said) not in off]
    return MailPlan(filters, tuple(sorted(on, key=FACETS.index)))
