"""Engines that are simple enough to be believed, and ones that fail as told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness_engines.rerank import Reranked, Reranker
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Event,
    Filters,
    Importance,
    MailEngine,
    Message,
    MessageCandidate,
    Payload,
    RankingMode,
    SearchMode,
)
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.retrievers import MessageVectors, Tiers
from harness_engines.stacks.agent_mail.service import MailSearch


def message(message_id: int, subject: str, *, project: int = 1, sender: str = "Ann") -> Message:
    return Message(
        message_id=message_id,
        project_id=project,
        subject=subject,
        body="",
        sender_name=sender,
        recipients=("Bob",),
        thread_id=f"t{message_id % 3}",
        importance=Importance.NORMAL,
        ack_required=False,
        created_ts=1_000_000 + message_id,
    )


@dataclass(frozen=True)
class Counting:
    """Scores a message by how often the query's words are in its subject."""

    name: str
    messages: Sequence[Message]

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        words = text.lower().split()
        scored = [
            (m, sum(m.subject.lower().split().count(word) for word in words)) for m in self.messages
        ]
        kept = [(m, n) for m, n in scored if (n or not words) and passes(m, filters)]
        if ranking is RankingMode.RECENCY:
            kept.sort(key=lambda row: (-row[0].created_ts, row[0].message_id))
        else:
            kept.sort(key=lambda row: (-row[1], row[0].message_id))
        found = tuple(MessageCandidate(m.message_id, float(n)) for m, n in kept[:depth])
        return CandidateList(found, len(kept) <= depth, self.name, text, sql=f"sql of {self.name}")


@dataclass(frozen=True)
class Failing:
    """An engine or a reranker that raises what it is told to."""

    name: str
    error: BaseException
    identity: str = "failing"

    def search(self, *_: object) -> CandidateList:
        raise self.error

    def rerank(self, *_: object) -> Sequence[Reranked]:
        raise self.error


def passes(found: Message, filters: Filters) -> bool:
    return (filters.project_id is None or found.project_id == filters.project_id) and (
        filters.sender_name is None or found.sender_name == filters.sender_name
    )


@dataclass
class Log:
    """Remembers events."""

    events: list[tuple[Event, Payload]] = field(default_factory=list)

    def emit(self, event: Event, payload: Payload) -> None:
        self.events.append((event, payload))


def service(
    messages: Sequence[Message],
    *,
    lexical: Mapping[FallbackTier, MailEngine] | None = None,
    semantic: MessageVectors | None = None,
    reranker: Reranker | None = None,
    switch: KillSwitch | None = None,
    log: Log | None = None,
    deleted: frozenset[int] = frozenset(),
    budget_ms: float = 0.0,
) -> MailSearch:
    """Make a service over ``messages``; ``deleted`` ones are still in the indexes."""
    known = {m.message_id: m for m in messages if m.message_id not in deleted}
    engines: Mapping[FallbackTier, MailEngine] = lexical or {
        tier: Counting(tier.value, messages)
        for tier in (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
    }
    return MailSearch(
        tiers=Tiers(
            engines,
            semantic,
            reranker,
            lambda ids: {i: known[i].created_ts for i in ids if i in known},
        ),
        hydrate=lambda ids: {i: known[i] for i in ids if i in known},
        projects_of=lambda product: frozenset({product * 10, product * 10 + 1}),
        switch=switch,
        emit=(log or Log()).emit,
        budget_ms=budget_ms,
    )


LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
CHAINS = {
    SearchMode.LEXICAL: LEXICAL,
    SearchMode.SEMANTIC: (FallbackTier.SEMANTIC, *LEXICAL),
    SearchMode.HYBRID: (FallbackTier.HYBRID, *LEXICAL),
    SearchMode.HYBRID_RERANK: (FallbackTier.RERANK, FallbackTier.HYBRID, *LEXICAL),
}
"""Section 1.2, written down once more."""
