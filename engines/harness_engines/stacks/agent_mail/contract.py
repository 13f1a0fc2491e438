"""The contract of message search: queries, results, events, and the traits of engines.

Whatever goes wrong inside the stack is one of the four kinds of ``SearchError``.
"""

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from harness_engines.lexical.terms import folded, identifiers, sign_names


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of one project. One that is known from messages alone has a name and no more."""

    agent_id: int
    project_id: int
    name: str
    program: str = ""
    """What runs it."""
    model: str = ""
    task_description: str = ""


@dataclass(frozen=True, slots=True)
class MailProject:
    """A project: ``slug`` names it to programs, ``name`` and ``description`` to people."""

    project_id: int
    slug: str
    name: str = ""
    description: str = ""


Entity = Agent | MailProject


class Names(Protocol):
    """Names of projects and products; a ``MessageStore`` is one."""

    def project_called(self, slug: str) -> int | None: ...
    def product_called(self, name: str) -> int | None: ...
    def projects_of_product(self, product_id: int) -> frozenset[int]: ...


Scalar = str | int | float | bool | None
Payload = Mapping[str, Scalar]


class Event(StrEnum):
    """The names of section 8, and two of our own, which say what they carry."""

    REBUILD_START = "index.rebuild.start"
    REBUILD_COMPLETE = "index.rebuild.complete"
    INCREMENTAL_BATCH = "index.incremental.batch"
    SCHEMA_MISMATCH = "index.schema.mismatch"
    MODE_DOWNGRADE = "search.mode.downgrade"
    ENGINE_FALLBACK = "search.engine.fallback"
    """The mode is served, by another engine than the first: ``{wanted, engine, reason}``."""
    INDEX_STALE = "search.index.stale"
    """The engine that answered may miss a change of the messages: ``{engine, reason}``."""
    SHADOW_COMPARISON = "search.shadow.comparison"
    CURSOR_INVALIDATED = "search.cursor.invalidated"


Emit = Callable[[Event, Payload], object]
"""Takes an event and what section 8 says that it carries."""

LOG = logging.getLogger("engines.mail")


def to_log(event: Event, payload: Payload) -> None:
    """Write the event as a structured log line."""
    told = {"event": event.value, **payload}
    LOG.info(json.dumps(told, sort_keys=True), extra={"told": told})


DEPTH = 10


@dataclass(frozen=True, slots=True)
class ExplainTiming:
    """Microseconds by part, None where it did not run; parts add up to at most the total."""

    total_us: int = 0
    lexical_us: int | None = None
    vector_us: int | None = None
    fusion_us: int | None = None
    rerank_us: int | None = None
    scope_us: int | None = None


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """The serving engine's answer beside the shadow's, for SEARCH_ENGINE=shadow."""

    serving_engine: str
    shadow_engine: str
    overlap_jaccard: float | None
    ndcg_at_10: float | None
    """Of the shadow against the serving list as pseudo-judgements: agreement, not quality."""
    mrr_delta: float | None
    """Reciprocal rank of the serving list's first hit in the shadow's list, minus 1."""
    serving_only: int
    shadow_only: int


@dataclass(frozen=True, slots=True)
class QueryExplain:
    """The fields of section 5, V2's first."""

    method: str
    normalized_query: str | None
    used_like_fallback: bool
    facet_count: int
    facets_applied: tuple[str, ...]
    sql: str
    scope_policy: str
    denied_count: int
    redacted_count: int
    requested_mode: str
    actual_mode: str
    engine: str
    mode_downgraded: bool
    downgrade_reason: str | None
    timing: ExplainTiming
    cursor_invalidated: bool
    shadow: ShadowComparison | None
    note: str
    """A validation failure or a fallback, in words; empty where there was none."""


def compare_with_shadow(
    serving_engine: str, serving: Sequence[int], shadow_engine: str, shadow: Sequence[int]
) -> ShadowComparison:
    """Compare message ids as shown; what is not defined is ``None`` (method, section 3)."""
    ours, theirs = set(serving), set(shadow)
    either = ours | theirs
    grade = {message_id: DEPTH - at for at, message_id in enumerate(serving[:DEPTH])}
    ideal, found = (
        sum(grade.get(m, 0) / math.log2(at + 2) for at, m in enumerate(ids[:DEPTH]))
        for ids in (serving, shadow)
    )
    first = serving[0] if serving else None
    return ShadowComparison(
        serving_engine=serving_engine,
        shadow_engine=shadow_engine,
        overlap_jaccard=len(ours & theirs) / len(either) if either else None,
        ndcg_at_10=found / ideal if serving else None,
        mrr_delta=None
        if first is None
        else (1 / (shadow.index(first) + 1) if first in theirs else 0.0) - 1.0,
        serving_only=len(ours - theirs),
        shadow_only=len(theirs - ours),
    )


LIMIT_DEFAULT, MAX_LIMIT = 50, 1_000
RERANK_DEFAULT, MIN_RERANK, MAX_RERANK = 100, 10, 1_000
RRF_DEFAULT, MAX_RRF = 60, 1_000


class SearchMode(StrEnum):
    """Section 1.1."""

    LEXICAL = "lexical"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    HYBRID_RERANK = "hybrid_rerank"


class DocKind(StrEnum):
    """What kind of thing is searched for."""

    MESSAGE = "message"
    AGENT = "agent"
    PROJECT = "project"


class Importance(StrEnum):
    """How pressing a message is."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class Direction(StrEnum):
    """Whether ``agent_name`` received a message or sent it."""

    INBOX = "inbox"
    OUTBOX = "outbox"


class RankingMode(StrEnum):
    """Section 3.1."""

    RELEVANCE = "relevance"
    RECENCY = "recency"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Inclusive bounds, microseconds since 1970 UTC; None is open."""

    min_ts: int | None = None
    max_ts: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is excluded."""
        return self.min_ts is None and self.max_ts is None


@dataclass(frozen=True, slots=True)
class Filters:
    """The complete catalogue of section 7.1 but for ``min_score``; all are ANDed together.

    Values within ``importance`` are ORed. ``product_projects`` are the projects of the product
    asked for; None where no product was.
    """

    project_id: int | None = None
    product_projects: frozenset[int] | None = None
    importance: frozenset[Importance] = frozenset()
    direction: Direction | None = None
    agent_name: str | None = None
    thread_id: str | None = None
    ack_required: bool | None = None
    time_range: TimeRange = TimeRange()
    sender_name: str | None = None
    recipient_name: str | None = None


UNFILTERED = Filters()
FILTERS = tuple(one.name for one in fields(Filters))
values_of: Callable[[Filters], tuple[Any, ...]] = attrgetter(*FILTERS)
"""Reads all filters, by the names of ``FILTERS``."""


class Condition(NamedTuple):
    """Holds of a message that has any of the values in any of the columns."""

    columns: tuple[str, ...]
    values: Sequence[str | int]


ROLES: Mapping[Direction | None, tuple[str, ...]] = {
    Direction.OUTBOX: ("sender_name",),
    Direction.INBOX: ("recipients",),
}
"""What an agent is of a message; either where no direction is given."""


def conditions(filters: Filters) -> list[Condition]:
    """List what a message must hold to pass ``filters``, all of it, but for bounds of time."""
    one, products, ack = filters.project_id, filters.product_projects, filters.ack_required
    agent_is = ROLES.get(filters.direction, ("sender_name", "recipients"))
    asked: Sequence[tuple[tuple[str, ...], Iterable[str | int] | None]] = (
        (("project_id",), products if one is None else (one,)),
        (("importance",), [level.value for level in filters.importance] or None),
        (agent_is, _only(filters.agent_name)),
        (("ack_required",), None if ack is None else (int(ack),)),
        (("thread_id",), _only(filters.thread_id)),
        (("sender_name",), _only(filters.sender_name)),
        (("recipients",), _only(filters.recipient_name)),
    )
    return [Condition(of, sorted(values)) for of, values in asked if values is not None]


def _only(name: str | None) -> tuple[str] | None:
    return None if name is None else (name,)


LEAST, MOST = -(2**63), 2**63 - 1
"""What the engines hold as a whole number; no message has a number beyond."""


class Weights(NamedTuple):
    """What a word counts in a subject and among identifiers, where it counts 1 in a body."""

    subject: int
    identifiers: int


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One query. Every field but ``text`` has the default that V2 had (section 2.1)."""

    text: str
    mode: SearchMode = SearchMode.LEXICAL
    doc_kind: DocKind = DocKind.MESSAGE
    project_id: int | None = None
    product_id: int | None = None
    importance: tuple[Importance, ...] = ()
    direction: Direction | None = None
    agent_name: str | None = None
    thread_id: str | None = None
    ack_required: bool | None = None
    time_range: TimeRange = TimeRange()
    sender_name: str | None = None
    recipient_name: str | None = None
    min_score: float | None = None
    ranking: RankingMode = RankingMode.RELEVANCE
    limit: int | None = None
    cursor: str | None = None
    explain: bool = False
    rerank_top_k: int | None = None
    rrf_k: int | None = None

    @property
    def effective_limit(self) -> int:
        """Hits on a page: 50 where none is named, held within 1..1000."""
        asked = LIMIT_DEFAULT if self.limit is None else self.limit
        return min(max(asked, 1), MAX_LIMIT)

    @property
    def effective_min_score(self) -> float | None:
        """Threshold of scores; None where none is named, and where it is not a number."""
        asked = self.min_score
        return None if asked is None or math.isnan(asked) else asked

    @property
    def effective_rerank_top_k(self) -> int:
        """Candidates to rerank: 100 where none is named, held within 10..1000."""
        asked = RERANK_DEFAULT if self.rerank_top_k is None else self.rerank_top_k
        return min(max(asked, MIN_RERANK), MAX_RERANK)

    @property
    def effective_rrf_k(self) -> int:
        """Constant of reciprocal rank fusion: 60 where none is named, held within 1..1000."""
        asked = RRF_DEFAULT if self.rrf_k is None else self.rrf_k
        return min(max(asked, 1), MAX_RRF)


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is searched."""

    message_id: int
    project_id: int
    subject: str
    body: str
    sender_name: str
    recipients: tuple[str, ...]
    """Agents in to, cc and bcc."""
    thread_id: str
    importance: Importance
    ack_required: bool
    created_ts: int
    """Microseconds since 1970 UTC."""


def names(text: str) -> tuple[str, ...]:
    """Return the identifiers of a text, in its form, and behind them names such as ``C#``."""
    form = folded(text)
    return (*identifiers(form), *sign_names(form))


Changes = Mapping[int, Message | None]
"""Messages that were written or rewritten, by id, in the order of the changes; None for one that
was deleted."""


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What a rebuild did."""

    documents: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """Whether an index may be queried; ``reason`` says why not."""

    ready: bool
    documents: int
    reason: str = ""


MessageCandidate: TypeAlias = tuple[int, float]
"""Id and native score of a message that an engine found. A class of its own takes ten times as
long to make as a bare pair, and as long as finding it."""


@dataclass(frozen=True, slots=True)
class CandidateList:
    """What an engine gives: candidates best first, and what it executed.

    ``exhausted`` says that no further candidate exists beyond these. In the order of time ``best``
    is the highest score of all that is found, here or further on; None where the best come first.
    """

    candidates: Sequence[MessageCandidate]
    exhausted: bool
    method: str
    normalized_query: str | None
    sql: str = ""
    used_like_fallback: bool = False
    note: str = ""
    best: float | None = None


class MailEngine(Protocol):
    """Retrieval over messages; knows nothing of permissions (D8)."""

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        """Return at most ``depth`` candidates that pass ``filters``, equal scores by id ascending.

        An empty ``text`` asks for all messages that pass the filters, score 0.
        """
        ...


class DocumentSource(Protocol):
    """Where messages come from."""

    def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
        """Return at most ``limit`` messages of higher id than ``since_id``, by id."""
        ...

    def total_count(self) -> int:
        """Count all messages."""
        ...


class SearchHit(NamedTuple):
    """A message shown. ``score`` is in [0, 1], higher is better; ``raw_score`` is the engine's."""

    message_id: int
    project_id: int
    subject: str
    body: str
    sender_name: str
    thread_id: str
    importance: Importance
    ack_required: bool
    created_ts: int
    score: float
    raw_score: float
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class EntityHit:
    """An agent or a project shown, with scores as in ``SearchHit``."""

    entity: Entity
    score: float
    raw_score: float

    @property
    def doc_kind(self) -> DocKind:
        """What it is."""
        return DocKind.AGENT if isinstance(self.entity, Agent) else DocKind.PROJECT

    @property
    def doc_id(self) -> int:
        """Id within its kind; equal scores are ordered by it."""
        entity = self.entity
        return entity.agent_id if isinstance(entity, Agent) else entity.project_id


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """One page. ``explain`` is always made; a surface shows it where it was requested."""

    hits: tuple[SearchHit, ...]
    """Messages, where messages were requested."""
    next_cursor: str | None
    explain: QueryExplain
    served_by: str
    """Fingerprint of what really answered."""
    fell_back: bool = False
    """Whether a tier answered that is not the first of its chain."""
    entities: tuple[EntityHit, ...] = ()
    """Agents or projects, where those were requested."""
    stale: bool = False
    """Whether messages changed that the engine that answered may not know."""

    @property
    def degraded(self) -> bool:
        """Whether something other than what was requested answered."""
        explain = self.explain
        other = explain.mode_downgraded or explain.used_like_fallback
        return other or self.fell_back or self.stale
