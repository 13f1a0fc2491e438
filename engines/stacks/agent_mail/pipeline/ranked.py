"""One tier's answer in normalised scores, whatever the engine counts in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import le, neg
from typing import NamedTuple, overload

from engines.contract.errors import EngineError
from engines.stacks.agent_mail.contract.lifecycle import Candidate, CandidateList, Candidates


class Scored(NamedTuple):
    """A message with its score in [0, 1], higher is better, and the engine's own."""

    message_id: int
    score: float
    raw_score: float
    sent: int | None = None
    """When it was sent, where the order is by that; microseconds."""

    @property
    def key(self) -> float | int:
        """What order and cursors go by, higher first: the time sent, or else the score."""
        return self.score if self.sent is None else self.sent


@dataclass(frozen=True, slots=True, eq=False)
class ScoredColumns(Sequence[Scored]):
    """Messages with their scores in columns of one length; each is made when it is looked at."""

    message_ids: Sequence[int]
    scores: Sequence[float]
    raw_scores: Sequence[float]

    @classmethod
    def of(cls, hits: Sequence[Scored]) -> ScoredColumns:
        """Take hits apart into columns, where they are not in columns yet."""
        if isinstance(hits, cls):
            return hits
        columns = (
            [h.message_id for h in hits],
            [h.score for h in hits],
            [h.raw_score for h in hits],
        )
        return cls(*columns)

    def __len__(self) -> int:
        return len(self.message_ids)

    def __iter__(self) -> Iterator[Scored]:
        return map(Scored, self.message_ids, self.scores, self.raw_scores)

    @overload
    def __getitem__(self, at: int) -> Scored: ...
    @overload
    def __getitem__(self, at: slice) -> ScoredColumns: ...
    def __getitem__(self, at: int | slice) -> Scored | ScoredColumns:
        if isinstance(at, slice):
            return ScoredColumns(self.message_ids[at], self.scores[at], self.raw_scores[at])
        return Scored(self.message_ids[at], self.scores[at], self.raw_scores[at])


@dataclass(frozen=True, slots=True)
class Clock:
    """Microseconds that the parts of a tier took; None where a part did not run."""

    lexical_us: int | None = None
    vector_us: int | None = None
    fusion_us: int | None = None
    rerank_us: int | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """Messages in the order of section 3.3: score descending, id ascending."""

    hits: Sequence[Scored]
    exhausted: bool
    """Whether a greater depth would give no more."""
    method: str
    normalized_query: str | None = None
    sql: str = ""
    used_like_fallback: bool = False
    note: str = ""
    clock: Clock = field(default_factory=Clock)


def in_order(hits: Iterable[Scored]) -> tuple[Scored, ...]:
    """Sort by score (or time sent) descending, then id ascending (section 3.3)."""
    return tuple(sorted(hits, key=lambda hit: (-hit.key, hit.message_id)))


def of_lexical(found: CandidateList, clock: Clock) -> Ranked:
    """Take an engine's candidates over, their scores as shares of the best one.

    0 is what a message that matches nothing would score and 1 the query's best hit, so a score
    depends neither on the page nor on the depth (decision 7). Without a score, as in a listing,
    every message has 0.

    Raises:
        EngineError: a score is NaN or infinite.
    """
    columns = Candidates.of(found.candidates)
    checked(columns)
    seen = max(columns.raw_scores, default=0.0)
    best = seen if found.best is None else found.best
    return Ranked(
        _ordered(columns, _shares(columns.raw_scores, best)),
        found.exhausted,
        found.method,
        found.normalized_query,
        found.sql,
        found.used_like_fallback,
        found.note,
        clock,
    )


def _ordered(found: Candidates, shares: Sequence[float]) -> ScoredColumns:
    """Put candidates in the order of their shares, then ids; most engines gave them so."""
    keys = list(zip(map(neg, shares), found.message_ids, strict=True))
    if all(map(le, keys, islice(keys, 1, None))):
        return ScoredColumns(found.message_ids, shares, found.raw_scores)
    ranked = sorted(zip(map(neg, shares), found.message_ids, found.raw_scores, strict=True))
    below, message_ids, scores = zip(*ranked, strict=True)
    return ScoredColumns(message_ids, list(map(neg, below)), scores)


def _shares(scores: Sequence[float], best: float) -> Sequence[float]:
    """Divide scores by the best one; all are 0 where that is not above 0."""
    if best <= 0:
        return [0.0] * len(scores)
    shares = [score / best for score in scores]
    if not shares or (min(shares) >= 0.0 and max(shares) <= 1.0):
        return shares
    return [min(1.0, max(0.0, share)) for share in shares]


def checked(candidates: Sequence[Candidate]) -> None:
    """Refuse scores that are not numbers.

    Raises:
        EngineError: a score is NaN or infinite.
    """
    found = Candidates.of(candidates)
    if all(map(math.isfinite, found.raw_scores)):
        return
    for message_id, score in zip(found.message_ids, found.raw_scores, strict=True):
        if not math.isfinite(score):
            raise EngineError(f"message {message_id} scored {score}")
