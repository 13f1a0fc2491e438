"""A source in memory, and an engine over it, for the tests of Tantivy over messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness_engines.stacks.agent_mail.contract import (
    ChangeKind,
    DocChange,
    Event,
    Filters,
    Message,
    MessageCandidate,
    Payload,
    RankingMode,
)
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness_engines.stacks.agent_mail.tantivy.index import FieldCopies, WriterOptions

ALL = 1_000_000
"""A depth that shows every message."""
NONE = Filters()
WEIGHTS = FieldCopies(subject=2, identifiers=4)


@dataclass
class Source:
    """Messages by id, as a table would give them."""

    by_id: dict[int, Message] = field(default_factory=dict)

    def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
        return [self.by_id[at] for at in sorted(self.by_id) if at > since_id][:limit]

    def total_count(self) -> int:
        return len(self.by_id)


@dataclass
class Told:
    """Remembers events."""

    events: list[tuple[Event, Payload]] = field(default_factory=list)

    def __call__(self, event: Event, payload: Payload) -> None:
        self.events.append((event, payload))

    @property
    def names(self) -> list[str]:
        return [event.value for event, _ in self.events]


@dataclass
class Case:
    """An engine, its source, and what it told."""

    engine: TantivyMailEngine
    source: Source
    told: Told

    def ids(
        self,
        text: str,
        filters: Filters = NONE,
        ranking: RankingMode = RankingMode.RELEVANCE,
        depth: int = ALL,
    ) -> list[int]:
        return [c.message_id for c in self.candidates(text, filters, ranking, depth)]

    def candidates(
        self,
        text: str,
        filters: Filters = NONE,
        ranking: RankingMode = RankingMode.RELEVANCE,
        depth: int = ALL,
    ) -> Sequence[MessageCandidate]:
        return self.engine.search(text, filters, ranking, depth).candidates

    def fresh(self) -> Case:
        """Give another engine on the same folder, with nothing open yet."""
        return case(self.engine.root, self.source.by_id.values())


def case(root: Path, messages: Iterable[Message], threads: int = 1) -> Case:
    """Make an engine; nothing is built."""
    source, told = Source({m.message_id: m for m in messages}), Told()
    written = WriterOptions(threads, threads * 15_000_000)
    engine = TantivyMailEngine(root, source, told, WEIGHTS, written)
    return Case(engine, source, told)


def built(root: Path, messages: Iterable[Message], threads: int = 1) -> Case:
    """Make an engine and its index, and forget what it told."""
    made = case(root, messages, threads)
    made.engine.rebuild()
    made.told.events.clear()
    return made


def upsert(message: Message) -> DocChange:
    return DocChange(ChangeKind.UPSERT, message.message_id, message)


def delete(message_id: int) -> DocChange:
    return DocChange(ChangeKind.DELETE, message_id)
