"""Per-query values of one measure, and numbers with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError, MismatchedQueries

UNANSWERED = frozenset({"failed", "timed_out", "not_asked"})
"""Reasons of an arm's own making: what it would have shown is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One value per query, never an average on its own.

    Only queries for which the measure is defined are in here; the others are counted in
    ``undefined`` by reason (``failed``, ``not_asked``, ``negative_query``, ``both_empty`` ...).
    """

    measure: str
    query_ids: tuple[str, ...]
    values: NDArray[np.float64]
    """Shape (queries,), finite."""
    undefined: Mapping[str, tuple[str, ...]]
    """Query ids without a value, by reason."""

    @property
    def mean(self) -> float | None:
        """Arithmetic mean over the queries; None without queries."""
        return float(self.values.mean()) if len(self.values) else None

    @property
    def unanswered(self) -> frozenset[str]:
        """Queries that would have a value, had the arm answered them."""
        return frozenset(q for why in UNANSWERED for q in self.undefined.get(why, ()))

    @property
    def by_query(self) -> Mapping[str, float]:
        """Value of each query."""
        return dict(zip(self.query_ids, self.values.tolist(), strict=True))

    def only(self, query_ids: Iterable[str]) -> Scores:
        """Keep the queries of a slice."""
        wanted = frozenset(query_ids)
        keep = np.array([q in wanted for q in self.query_ids], dtype=bool)
        return Scores(
            self.measure,
            tuple(q for q in self.query_ids if q in wanted),
            self.values[keep],
            {why: tuple(q for q in ids if q in wanted) for why, ids in self.undefined.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Differences candidate - control of one measure over the queries that both have."""

    measure: str
    query_ids: tuple[str, ...]
    control: NDArray[np.float64]
    candidate: NDArray[np.float64]
    unpaired: tuple[str, ...]
    """Queries that an arm, or both, did not answer, and those that only one has a value for."""

    @property
    def difference(self) -> NDArray[np.float64]:
        """Shape (queries,): candidate - control."""
        return self.candidate - self.control

    @classmethod
    def of(cls, control: Scores, candidate: Scores) -> Paired:
        """Pair two sets of scores by query id, never by position.

        Raises:
            MismatchedQueries: the arms have different queries.
            EvidenceError: the measures differ.
        """
        one, other = ((s.measure, s.query_ids, len(s.undefined)) for s in (control, candidate))
        if one == other == (control.measure, control.query_ids, 0):
            values = control.values, candidate.values
            return cls(control.measure, control.query_ids, *values, unpaired=())
        known = [
            set(s.query_ids).union(*s.undefined.values()) if s.undefined else set(s.query_ids)
            for s in (control, candidate)
        ]
        if control.measure != candidate.measure:
            raise EvidenceError(
                f"{control.measure} of the control differs from {candidate.measure} of the"
                " candidate; score both arms with the same measure"
            )
        if known[0] != known[1]:
            raise MismatchedQueries(known[0] - known[1], known[1] - known[0])
        left, right = control.by_query, candidate.by_query
        shared = tuple(q for q in control.query_ids if q in right)
        return cls(
            control.measure,
            shared,
            np.array([left[q] for q in shared], dtype=np.float64),
            np.array([right[q] for q in shared], dtype=np.float64),
            tuple(sorted((left.keys() ^ right.keys()) | control.unanswered | candidate.unanswered)),
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its two-sided interval, and the number of queries behind it."""

    value: float
    low: float
    high: float
    n: int
