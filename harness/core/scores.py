"""Per-query values of a measure, clusters of queries, and numbers with intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError, MismatchedQueries

Clustering = Literal["near-duplicates", "given", "none"]
"""By intent, or by text for queries without one; by intent alone; no clusters."""
BY_TEXT: Clustering = "near-duplicates"
"""The default: queries with nearly the same words depend on each other (method, section 8)."""


def codes(query_ids: Sequence[str], clusters: Mapping[str, str]) -> NDArray[np.int64] | None:
    """Code of each query's cluster, shape (queries,); None where no two queries share one.

    ``query_ids`` has each once, ``clusters`` the cluster of a query by its id. A query without an
    entry is a cluster of its own.
    """
    first, opened = np.arange(len(query_ids)), dict[str, int]()
    known = np.fromiter(map(clusters.__contains__, query_ids), bool, len(first))
    for at in np.flatnonzero(known).tolist():
        first[at] = opened.setdefault(clusters[query_ids[at]], at)
    own = first == np.arange(len(first))
    return None if own.all() else (np.cumsum(own) - 1)[first]


def independent(query_ids: Sequence[str], clusters: Mapping[str, str]) -> int:
    """Count the clusters of some queries, including those of one query."""
    groups = codes(query_ids, clusters)
    return len(query_ids) if groups is None else int(groups.max()) + 1


def said_of_parted(count: int) -> str:
    """Return how many near duplicates have different intents, to follow a count; empty for none."""
    if not count:
        return ""
    return f"; {count:,} with nearly the words of another have an intent of their own"


@dataclass(frozen=True, slots=True)
class Dependence:
    """The effect of clusters of queries on the spread of a mean."""

    queries: int
    clusters: int
    """Number of clusters, including those of one query."""
    largest: int
    design_effect: float
    """Variance of the mean, over its variance if queries were independent."""

    @property
    def effective(self) -> float:
        """Effective number of queries; at most their number."""
        return self.queries / max(1.0, self.design_effect)


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

    def only(self, query_ids: Iterable[str]) -> "Scores":
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
    def of(cls, control: Scores, candidate: Scores) -> "Paired":
        """Pair two sets of scores by query id, never by position."""
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
