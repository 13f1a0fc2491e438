"""One tier's answer in normalised scores, whatever the engine counts in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engines.contract.errors import EngineError
from engines.stacks.agent_mail.contract.lifecycle import Candidate, CandidateList, Candidates


@dataclass(frozen=True, slots=True)
class Scored:
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

    hits: tuple[Scored, ...]
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
    hits = (
        Scored(message_id, min(1.0, max(0.0, score / best)) if best > 0 else 0.0, score)
        for message_id, score in zip(columns.message_ids, columns.raw_scores, strict=True)
    )
    return Ranked(
        in_order(hits),
        found.exhausted,
        found.method,
        found.normalized_query,
        found.sql,
        found.used_like_fallback,
        found.note,
        clock,
    )


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
