"""A run: the hits of one arm for every query of a set, as compressed rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.digest import of_bytes, of_json
from harness.core.engine import Hit
from harness.core.errors import RunError
from harness.core.printable import counted


class Status(IntEnum):
    """The outcome of a query. No number stands for any of the four."""

    ANSWERED = 0
    """Answered; the answer may be empty."""
    FAILED = 1
    TIMED_OUT = 2
    NOT_ASKED = 3
    """In the query set, but not in the run (only imported runs have such)."""


class Row(NamedTuple):
    """One query on its way into or out of a run; ``duplicates`` were taken out of ``hits``."""

    query_id: str
    status: Status
    hits: Sequence[Hit] = ()
    served_by: str = ""
    error: str = ""
    duplicates: int = 0


class Conditions(NamedTuple):
    """Conditions of every query of a run."""

    k: int
    time_limit_s: float
    """After which an answer counts as a timeout."""


@dataclass(frozen=True, eq=False)
class Run:
    """Rankings of one arm over one query set.

    Row ``i`` of ``query_ids`` owns the hits ``offsets[i]:offsets[i+1]``, best first. Documents
    are codes into ``vocabulary``, which is in byte order, so codes order as ids do.
    """

    arm: str
    query_ids: tuple[str, ...]
    vocabulary: tuple[str, ...]
    offsets: NDArray[np.int64]
    """Shape (queries + 1,)."""
    docs: NDArray[np.int32]
    """Shape (hits,): codes into ``vocabulary``."""
    score: NDArray[np.float64]
    """Shape (hits,): normalised, higher is better. Evidence; the rank is the truth."""
    raw_score: NDArray[np.float64]
    """Shape (hits,): as the engine counts."""
    status: NDArray[np.uint8]
    """Shape (queries,): a ``Status`` each."""
    served_by: tuple[str, ...]
    """Fingerprint of the engine that answered each query; empty without an answer."""
    errors: tuple[str, ...]
    duplicates: NDArray[np.int32]
    """Shape (queries,): how many hits repeated a document; they were taken out."""
    conditions: Conditions | None = None
    retries: int = 0
    """Attempts that failed before the answers, as their engine counts them."""
    rate_limited: int = 0
    """Of these, attempts that a server refused to limit the rate."""

    @classmethod
    def of(cls, arm: str, rows: Iterable[Row]) -> Run:
        """Build a run; the first showing of a document stays, later ones are counted."""
        kept: list[tuple[Row, list[Hit]]] = []
        seen: set[str] = set()
        for row in rows:
            if row.query_id in seen:
                raise RunError(f"{arm}: query {row.query_id} is in the run twice")
            seen.add(row.query_id)
            first: dict[str, Hit] = {}
            for hit in row.hits:
                if not (math.isfinite(hit.score) and math.isfinite(hit.raw_score)):
                    raise RunError(
                        f"{arm}: query {row.query_id}: the score of {hit.doc_id} is"
                        f" {hit.score} (raw {hit.raw_score}); a score must be a finite number"
                    )
                first.setdefault(hit.doc_id, hit)
            kept.append((row, list(first.values())))
        vocabulary = tuple(sorted({hit.doc_id for _, hits in kept for hit in hits}))
        code = {doc_id: at for at, doc_id in enumerate(vocabulary)}
        flat = [hit for _, hits in kept for hit in hits]
        lengths = [len(hits) for _, hits in kept]
        return cls(
            arm=arm,
            query_ids=tuple(row.query_id for row, _ in kept),
            vocabulary=vocabulary,
            offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
            docs=np.array([code[hit.doc_id] for hit in flat], dtype=np.int32),
            score=np.array([hit.score for hit in flat], dtype=np.float64),
            raw_score=np.array([hit.raw_score for hit in flat], dtype=np.float64),
            status=np.array([row.status for row, _ in kept], dtype=np.uint8),
            served_by=tuple(row.served_by for row, _ in kept),
            errors=tuple(row.error for row, _ in kept),
            duplicates=np.array(
                [row.duplicates + len(row.hits) - len(hits) for row, hits in kept], dtype=np.int32
            ),
        )

    def only(self, query_ids: Collection[str]) -> Run:
        """Keep these queries, in their order here, and the documents that they show."""
        wanted = set(query_ids)
        rows = np.flatnonzero([query_id in wanted for query_id in self.query_ids])
        lengths, at = self.lengths[rows], rows.tolist()
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        hits = np.repeat(self.offsets[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        used, docs = np.unique(self.docs[hits], return_inverse=True)
        return replace(
            self,
            query_ids=tuple(self.query_ids[row] for row in at),
            vocabulary=tuple(self.vocabulary[code] for code in used.tolist()),
            offsets=ends,
            docs=docs.astype(np.int32),
            score=self.score[hits],
            raw_score=self.raw_score[hits],
            status=self.status[rows],
            served_by=tuple(self.served_by[row] for row in at),
            errors=tuple(self.errors[row] for row in at),
            duplicates=self.duplicates[rows],
        )

    def __len__(self) -> int:
        """Count the queries."""
        return len(self.query_ids)

    @property
    def repeated(self) -> str:
        """Return how many attempts were repeated; empty where none was."""
        if not self.retries:
            return ""
        limited = f", {self.rate_limited:,} of them rate-limited" if self.rate_limited else ""
        return f"{counted(self.retries, 'attempt')} repeated{limited}"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Hits of each query, shape (queries,)."""
        return np.diff(self.offsets)

    @property
    def shown_sha256(self) -> str:
        """Digest of all rankings; it knows neither the arm's name nor a score."""
        arrays = (of_bytes(self.offsets.tobytes()), of_bytes(self.docs.tobytes()))
        return of_json([self.query_ids, self.vocabulary, arrays])

    def shows_the_same(self, other: Run) -> bool:
        """Return whether each query ended alike in both runs, with the same list, hit for hit."""
        alike = self.shown_sha256 == other.shown_sha256
        return alike and bool((self.status == other.status).all())

    def ranking(self, query_id: str, k: int | None = None) -> tuple[str, ...]:
        """Document ids shown for one query, best first, at most ``k``."""
        return tuple(hit.doc_id for hit in self.hits(query_id, k))

    def rankings(
        self, query_ids: Iterable[str], k: int | None = None
    ) -> dict[str, tuple[str, ...]]:
        """Document ids shown for many queries, best first, at most ``k`` each, by query id."""
        rows, ends = self.positions, self.offsets.tolist()
        found = {}
        for query_id in query_ids:
            low, high = ends[(row := rows[query_id])], ends[row + 1]
            high = high if k is None else min(high, low + k)
            found[query_id] = tuple(map(self.vocabulary.__getitem__, self.docs[low:high].tolist()))
        return found

    def hits(self, query_id: str, k: int | None = None) -> tuple[Hit, ...]:
        """Hits of one query, best first, at most ``k``."""
        return self._hits(self.positions[query_id], k)

    def _hits(self, row: int, k: int | None = None) -> tuple[Hit, ...]:
        low, high = int(self.offsets[row]), int(self.offsets[row + 1])
        high = high if k is None else min(high, low + k)
        return tuple(
            Hit(self.vocabulary[self.docs[at]], float(self.score[at]), float(self.raw_score[at]))
            for at in range(low, high)
        )

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Row of each query id."""
        return {query_id: at for at, query_id in enumerate(self.query_ids)}

    def rows(self) -> Iterator[Row]:
        """Yield the queries in order, with their hits."""
        for at, query_id in enumerate(self.query_ids):
            status, found = Status(self.status[at]), int(self.duplicates[at])
            who, error = self.served_by[at], self.errors[at]
            yield Row(query_id, status, self._hits(at), who, error, found)

    def count(self, status: Status) -> int:
        """Count the queries with this status."""
        return int((self.status == status).sum())
