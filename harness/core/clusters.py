"""Clusters of dependent queries, and the cost of the dependence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Clustering = Literal["near-duplicates", "given", "none"]
"""By intent, or by text for queries without one; by intent alone; no clusters."""
BY_TEXT: Clustering = "near-duplicates"
"""The default: queries with nearly the same words depend on each other (method, section 8)."""


def codes(query_ids: Sequence[str], clusters: Mapping[str, str]) -> NDArray[np.int64] | None:
    """Code of each query's cluster, shape (queries,); None where no two queries share one.

    ``clusters`` has the cluster of a query by its id. A query without an entry is a cluster of its
    own.
    """
    labels = [(True, clusters[q]) if q in clusters else (False, q) for q in query_ids]
    code = {label: at for at, label in enumerate(dict.fromkeys(labels))}
    if len(code) == len(labels):
        return None
    return np.array([code[label] for label in labels], dtype=np.int64)


def independent(query_ids: Sequence[str], clusters: Mapping[str, str]) -> int:
    """Count the clusters of some queries, including those of one query."""
    groups = codes(query_ids, clusters)
    return len(query_ids) if groups is None else int(groups.max()) + 1


def said_of_parted(count: int) -> str:
    """Say how many near duplicates have different intents, to follow a count; empty for none."""
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
    """Queries of the largest cluster."""
    design_effect: float
    """Variance of the mean, over its variance if queries were independent."""

    @property
    def effective(self) -> float:
        """Effective number of queries; at most their number."""
        return self.queries / max(1.0, self.design_effect)
