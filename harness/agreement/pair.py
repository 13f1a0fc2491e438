"""Two runs side by side: where each document of one list stands in the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import HarnessError, MismatchedQueries
from harness.core.run import Run

ABSENT = np.iinfo(np.int32).max
"""Stands where a rank would, after every rank: the document is not in that list."""
DEEPEST = ABSENT - 1
"""Lists may be cut at no greater depth; none is that long."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Ranks count from 0; row ``i`` is query ``query_ids[i]`` in both runs."""

    query_ids: tuple[str, ...]
    """In the control's order."""
    control_rows: NDArray[np.int64]
    """Shape (queries,): the row of each query in the control's run."""
    candidate_rows: NDArray[np.int64]
    """Shape (queries,)."""
    control_length: NDArray[np.int64]
    """Shape (queries,): hits of the control."""
    candidate_length: NDArray[np.int64]
    """Shape (queries,)."""
    rank: NDArray[np.int64]
    """Shape (queries, longest list of the control): the candidate's rank of the control's document
    at each rank. ``ABSENT`` where the candidate does not show it or the control's list is over."""

    def lengths(self, depth: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Hits of control and candidate within ``depth``, each of shape (queries,)."""
        check_depth(depth)
        return np.minimum(self.control_length, depth), np.minimum(self.candidate_length, depth)

    def within(self, depth: int) -> NDArray[np.int64]:
        """``rank`` of the lists cut at ``depth``, shape (queries, at most depth)."""
        check_depth(depth)
        rank = self.rank[:, :depth]
        cut: NDArray[np.int64] = np.where(rank < depth, rank, ABSENT)
        return cut

    def shared(self, depth: int) -> NDArray[np.int64]:
        """Documents that both lists show within ``depth``, shape (queries,)."""
        found: NDArray[np.int64] = (self.within(depth) < depth).sum(axis=1, dtype=np.int64)
        return found

    @classmethod
    def of(cls, control: Run, candidate: Run) -> Pair:
        """Match two runs by query id and document id, whatever the order of either.

        Raises:
            MismatchedQueries: they are about different queries.
        """
        positions = candidate.positions
        here, there = set(control.query_ids), set(positions)
        if here != there:
            raise MismatchedQueries(here - there, there - here)
        code = {doc_id: at for at, doc_id in enumerate(control.vocabulary)}
        recode = np.array(
            [code.setdefault(doc_id, len(code)) for doc_id in candidate.vocabulary], dtype=np.int64
        )
        row_of = np.array([positions[query_id] for query_id in control.query_ids], dtype=np.int64)
        place = np.empty(len(row_of), dtype=np.int64)
        place[row_of] = np.arange(len(row_of))
        rows, ranks = _rows_and_ranks(control)
        other_rows, other_ranks = _rows_and_ranks(candidate)
        width = max(len(code), 1)
        wanted = rows * width + control.docs
        known = place[other_rows] * width + recode[candidate.docs]
        order = np.argsort(known)
        at = np.searchsorted(known, wanted, sorter=order)
        found = np.full(len(wanted), ABSENT, dtype=np.int64)
        inside = np.flatnonzero(at < len(known))
        hit = inside[known[order[at[inside]]] == wanted[inside]]
        found[hit] = other_ranks[order[at[hit]]]
        rank = np.full((len(control), int(control.lengths.max(initial=0))), ABSENT, dtype=np.int64)
        rank[rows, ranks] = found
        return cls(
            query_ids=control.query_ids,
            control_rows=np.arange(len(control), dtype=np.int64),
            candidate_rows=row_of,
            control_length=control.lengths,
            candidate_length=candidate.lengths[row_of],
            rank=rank,
        )


def check_depth(depth: int) -> None:
    """Refuse a depth that holds no rank, or that no rank could stand at.

    Raises:
        HarnessError: ``depth`` is below 1 or above ``DEEPEST``.
    """
    if not 1 <= depth <= DEEPEST:
        raise HarnessError(f"depth {depth} holds no rank; give an integer from 1 to {DEEPEST}")


def _rows_and_ranks(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and rank of every hit, each of shape (hits,)."""
    rows = np.repeat(np.arange(len(run), dtype=np.int64), run.lengths)
    return rows, np.arange(len(run.docs), dtype=np.int64) - run.offsets[rows]
