"""From a query to what will be tried: filters, facets, and the chain of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from engines.stacks.agent_mail.contract.query import (
    DocKind,
    Filters,
    RankingMode,
    SearchMode,
    SearchQuery,
    TimeRange,
)
from harness.core.errors import UnknownName


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
        """Read the environment's value.

        Raises:
            UnknownName: it is not one of them; a typing error must not choose an engine.
        """
        if not value:
            return None
        if value not in {known.value for known in cls}:
            raise UnknownName("SEARCH_ENGINE", value, [known.value for known in cls])
        return cls(value)


LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
WITHOUT_TANTIVY = (FallbackTier.FTS5, FallbackTier.LIKE)
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
MODE_OF = {
    FallbackTier.RERANK: SearchMode.HYBRID_RERANK,
    FallbackTier.HYBRID: SearchMode.HYBRID,
    FallbackTier.SEMANTIC: SearchMode.SEMANTIC,
    FallbackTier.TANTIVY: SearchMode.LEXICAL,
    FallbackTier.FTS5: SearchMode.LEXICAL,
    FallbackTier.LIKE: SearchMode.LEXICAL,
}


def chain(
    mode: SearchMode, switch: KillSwitch | None, kind: DocKind = DocKind.MESSAGE
) -> tuple[FallbackTier, ...]:
    """List what is tried for ``mode``, best first (section 1.2), under the kill switch.

    ``fts5`` and ``shadow`` serve FTS5 whatever was requested; ``hybrid`` and ``hybrid_rerank``
    lift a lexical query to that pipeline; ``tantivy`` and no value leave the mode's own chain.
    Tantivy and vectors hold only messages, so for agents and projects there is FTS5 in every
    mode.
    """
    if kind is not DocKind.MESSAGE or switch in {KillSwitch.FTS5, KillSwitch.SHADOW}:
        return WITHOUT_TANTIVY
    return CHAINS[wanted(mode, switch, kind)]


def wanted(mode: SearchMode, switch: KillSwitch | None, kind: DocKind) -> SearchMode:
    """Mode that a query is served in when nothing is missing."""
    if switch is None or kind is not DocKind.MESSAGE or mode is not SearchMode.LEXICAL:
        return mode
    return LIFTED.get(switch, mode)


def lacking(query: SearchQuery, switch: KillSwitch | None) -> Iterator[str]:
    """Say what of a query no tier of its chain can do, and why."""
    if query.doc_kind is not DocKind.MESSAGE:
        if query.mode is not SearchMode.LEXICAL:
            yield f"{query.mode}: only messages have vectors"
        if switch is KillSwitch.TANTIVY:
            yield f"{FallbackTier.TANTIVY}: holds only messages"
        if query.ranking is RankingMode.RECENCY:
            yield "recency: only messages are sent at a time, so the order is by relevance"
    elif switch in {KillSwitch.FTS5, KillSwitch.SHADOW} and query.mode is not SearchMode.LEXICAL:
        yield f"SEARCH_ENGINE is {switch}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a query asks for, once its conflicts are resolved."""

    filters: Filters
    facets: tuple[str, ...]
    """Names of the filters that are applied, in the order of section 7.1."""


def plan(query: SearchQuery, projects_of: Callable[[int], frozenset[int]]) -> Plan:
    """Resolve filters that contradict each other (section 7.2).

    A project wins over a product, and a direction needs an agent. Agents and projects have no
    message facets; those are left out without a word (section 2.2, rule 8). ``projects_of``
    gives the projects of a product.
    """
    by_product = query.product_id is not None and query.project_id is None
    message = query.doc_kind is DocKind.MESSAGE
    filters = Filters(
        project_id=query.project_id,
        product_projects=projects_of(query.product_id)
        if by_product and message and query.product_id is not None
        else None,
        importance=frozenset(query.importance) if message else frozenset(),
        direction=query.direction if message and query.agent_name is not None else None,
        agent_name=query.agent_name if message else None,
        thread_id=query.thread_id if message else None,
        ack_required=query.ack_required if message else None,
        time_range=query.time_range if message else TimeRange(),
        sender_name=query.sender_name if message else None,
        recipient_name=query.recipient_name if message else None,
    )
    applied = {
        "project_id": filters.project_id is not None,
        "product_id": filters.product_projects is not None,
        "importance": bool(filters.importance),
        "direction": filters.direction is not None,
        "agent_name": filters.agent_name is not None,
        "thread_id": filters.thread_id is not None,
        "ack_required": filters.ack_required is not None,
        "time_range": not filters.time_range.is_open,
        "sender_name": filters.sender_name is not None,
        "recipient_name": filters.recipient_name is not None,
        "min_score": query.effective_min_score is not None,
    }
    return Plan(filters, tuple(name for name, on in applied.items() if on))
