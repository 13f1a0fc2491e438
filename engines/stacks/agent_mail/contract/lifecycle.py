"""The traits of ADR-003, D2: engines, their indexes, and where documents come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, overload

from engines.stacks.agent_mail.contract.query import Filters, Importance, RankingMode


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


class Change(StrEnum):
    """What happened to a document."""

    UPSERT = "upsert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class DocChange:
    """A document that was written, rewritten or deleted; ``message`` is ``None`` for a deletion."""

    kind: Change
    message_id: int
    message: Message | None = None


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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that an engine found; ``raw_score`` is native, higher is better here."""

    message_id: int
    raw_score: float


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Sequence[Candidate]):
    """Candidates in columns of one length; each is made when it is looked at.

    Making a thousand takes longer than finding them, and most are never looked at.
    """

    message_ids: Sequence[int]
    raw_scores: Sequence[float]

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Candidates:
        """Take candidates apart into columns, where they are not in columns yet."""
        if isinstance(candidates, cls):
            return candidates
        return cls([c.message_id for c in candidates], [c.raw_score for c in candidates])

    def __len__(self) -> int:
        return len(self.message_ids)

    def __iter__(self) -> Iterator[Candidate]:
        return map(Candidate, self.message_ids, self.raw_scores)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> Candidates: ...
    def __getitem__(self, at: int | slice) -> Candidate | Candidates:
        if isinstance(at, slice):
            return Candidates(self.message_ids[at], self.raw_scores[at])
        return Candidate(self.message_ids[at], self.raw_scores[at])

    def __eq__(self, other: object) -> bool:
        """Tell whether ``other`` is a sequence of the same candidates, in columns or not."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, slots=True)
class CandidateList:
    """What an engine gives: candidates best first, and what it executed.

    ``exhausted`` says that no further candidate exists beyond these. In the order of time ``best``
    is the highest score of all that is found, here or further on; None where the best come first.
    """

    candidates: Sequence[Candidate]
    exhausted: bool
    method: str
    normalized_query: str | None
    sql: str = ""
    used_like_fallback: bool = False
    note: str = ""
    best: float | None = None


class MailEngine(Protocol):
    """Retrieval over messages; knows nothing of permissions (D8)."""

    @property
    def name(self) -> str:
        """``fts5``, ``tantivy``, ``vector`` ..."""
        ...

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        """Give at most ``depth`` candidates that pass ``filters``, equal scores by id ascending.

        An empty ``text`` asks for all messages that pass the filters, score 0.

        Raises:
            IndexUnavailable: the index is missing or broken.
            EngineError: anything else that went wrong.
        """
        ...


class DocumentSource(Protocol):
    """Where messages come from."""

    def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
        """Give at most ``limit`` messages of higher id than ``since_id``, by id."""
        ...

    def total_count(self) -> int:
        """Count all messages."""
        ...


class IndexLifecycle(Protocol):
    """Care of an index."""

    def rebuild(self) -> IndexStats:
        """Build anew from the document source."""
        ...

    def update_incremental(self, changes: Sequence[DocChange]) -> int:
        """Apply changes and count them; nothing is rebuilt."""
        ...

    def health(self) -> IndexHealth:
        """Say whether the index may be queried."""
        ...
