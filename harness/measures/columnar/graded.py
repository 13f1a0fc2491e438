"""A graded ranking: the ranks and grades of the judged documents.

All measures of one call are computed from it, so all use one ranking. Unjudged documents are left
out: they gain nothing and only move others down. So its size is the number of judged hits, and most
of the time goes into finding those in the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from harness.core.run import Run, Status
from harness.measures.columnar.compiled import find, probe
from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.columnar.lookup import UNKNOWN, Lookup

BLOCK = 32_768
"""Hits graded at a time: their arrays stay in the cache of a core."""
WORTH_COMPILING = 1_000_000
"""Number of hits from which loading numba pays, if it is installed."""
OTHER = -1
"""Stands for a query without judgements."""


@dataclass(frozen=True, slots=True, eq=False)
class Graded:
    """Judged hits of one run; hits of a query lie together, by rank."""

    qrels: EncodedQrels
    lengths: NDArray[np.int64]
    """Shape (judged queries,): hits shown, judged or not."""
    start: NDArray[np.int64]
    """Shape (judged queries,): where in the run's columns the hits of each query start."""
    row: NDArray[np.int64]
    """Shape (judged hits,): positions in ``qrels.query_ids``."""
    rank: NDArray[np.int64]
    """Shape (judged hits,): from 0."""
    grade: NDArray[np.int32]
    """Shape (judged hits,)."""
    _relevant: dict[int, Graded] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, run: Run, qrels: EncodedQrels) -> Graded:
        """Grade the answered queries of a run; queries without judgements are left out."""
        at = map(qrels.position.get, run.query_ids, repeat(OTHER))
        rows = np.fromiter(at, dtype=np.int64, count=len(run))
        rows[run.status != Status.ANSWERED] = OTHER
        translation = (
            None if run.vocabulary is qrels.vocabulary else qrels.translation(run.vocabulary)
        )
        return cls.of_rows(qrels, rows, run.offsets, run.docs, translation)

    @classmethod
    def of_rows(
        cls,
        qrels: EncodedQrels,
        rows: NDArray[np.int64],
        offsets: NDArray[np.int64],
        docs: NDArray[np.int32],
        translation: NDArray[np.int32] | None = None,
    ) -> Graded:
        """Grade compressed rows.

        ``rows`` of shape (queries,) is the position of each query in ``qrels.query_ids``, each at
        most once, or ``OTHER``; ``offsets`` and ``docs`` are those of a ``Run``. ``translation``
        turns ``docs`` into codes of ``qrels.vocabulary``; without it they are such codes.
        """
        lengths = np.zeros(len(qrels), dtype=np.int64)
        known = rows >= 0
        lengths[rows[known]] = np.diff(offsets)[known]
        through = probe() if len(docs) >= WORTH_COMPILING else None
        if through is not None:
            codes = docs if translation is None else translation[docs]
            place, pair = find(qrels.lookup, rows, offsets, codes, through)
        else:
            place, pair = _found(qrels.lookup, rows, offsets, docs, translation)
        start = np.zeros(len(qrels), dtype=np.int64)
        start[rows[known]] = offsets[:-1][known]
        row = qrels.rows[pair]
        return cls(qrels, lengths, start, row, place - start[row], qrels.grades[pair])

    def only(self, keep: NDArray[np.bool_]) -> Graded:
        """Judged hits of which ``keep``, of their shape, is true, at their ranks."""
        at = np.flatnonzero(keep)
        return replace(self, row=self.row[at], rank=self.rank[at], grade=self.grade[at])

    def relevant(self, rel: int) -> Graded:
        """Hits of grade ``rel`` or above, at their ranks; found once for all measures."""
        found = self._relevant.get(rel)
        if found is None:
            found = self._relevant[rel] = self.only(self.grade >= rel)
        return found

    def condensed(self, lowest: int | None = None) -> Graded:
        """Remove unjudged documents from the rankings; the rest closes up (Sakai 2007).

        With ``lowest``, documents graded below it are removed too. With 0 this is the option ``-J``
        of trec_eval and ``judged_only`` of ir-measures.
        """
        kept = self if lowest is None else self.only(self.grade >= lowest)
        lengths = np.bincount(kept.row, minlength=len(self.qrels)).astype(np.int64, copy=False)
        return replace(kept, lengths=lengths, rank=running(kept.row))


def _found(
    lookup: Lookup,
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
    docs: NDArray[np.int32],
    translation: NDArray[np.int32] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Places of the judged hits in ``docs``, in order, and which judgement each is."""
    places = [np.empty(0, dtype=np.int64)]
    pairs = [np.empty(0, dtype=np.int32)]
    for low, high in _blocks(offsets):
        span = slice(int(offsets[low]), int(offsets[high]))
        each = np.diff(offsets[low : high + 1])
        asked = docs[span] if translation is None else translation[docs[span]]
        row = np.repeat(rows[low:high], each)
        if (rows[low:high] < 0).any():
            asked = np.where(row >= 0, asked, np.int32(UNKNOWN))
            row = np.maximum(row, 0)
        place, pair = lookup.find(row, asked)
        places.append(place + span.start)
        pairs.append(pair)
    return np.concatenate(places), np.concatenate(pairs)


def running(row: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same row stand before each; rows lie together; the shape of ``row``."""
    at = np.arange(len(row), dtype=np.int64)
    first = np.zeros(len(row), dtype=np.int64)
    new = np.flatnonzero(row[1:] != row[:-1]) + 1
    first[new] = new
    return at - np.maximum.accumulate(first)


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut the queries into stretches of about ``BLOCK`` hits, one query at least."""
    low, queries = 0, len(offsets) - 1
    while low < queries:
        high = int(np.searchsorted(offsets, offsets[low] + BLOCK, side="right")) - 1
        high = min(max(high, low + 1), queries)
        yield low, high
        low = high
