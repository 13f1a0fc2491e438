"""Which queries depend on each other, and how much the dependence costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Clustering = Literal["near-duplicates", "given", "none"]
"""By intents and, where a query has none, by its text; by intents alone; not at all."""
BY_TEXT: Clustering = "near-duplicates"
"""Queries are taken to depend on each other where nobody says otherwise (method, section 8)."""


def codes(query_ids: Sequence[str], clusters: Mapping[str, str]) -> NDArray[np.int64] | None:
    """Code of each query's cluster, shape (queries,); None where no two queries share one.

    ``clusters`` names the cluster of a query by its id. A query that is not in there is a cluster
    of its own, whatever its id.
    """
    labels = [(True, clusters[q]) if q in clusters else (False, q) for q in query_ids]
    code = {label: at for at, label in enumerate(dict.fromkeys(labels))}
    if len(code) == len(labels):
        return None
    return np.array([code[label] for label in labels], dtype=np.int64)


def independent(query_ids: Sequence[str], clusters: Mapping[str, str]) -> int:
    """Count the clusters of some queries, those of one query among them."""
    groups = codes(query_ids, clusters)
    return len(query_ids) if groups is None else int(groups.max()) + 1


def said_of_parted(count: int) -> str:
    """Say how many near duplicates intents part, to follow a count; empty where none."""
    if not count:
        return ""
    return f"; intents part {count:,} queries that are near duplicates by their words"


@dataclass(frozen=True, slots=True)
class Dependence:
    """What clusters of queries do to the spread of a mean over them."""

    queries: int
    clusters: int
    """Those of one query among them."""
    largest: int
    """Queries of the largest cluster."""
    design_effect: float
    """Variance of the mean over what it were if queries were independent."""

    @property
    def effective(self) -> float:
        """How many independent queries these are worth; never more than there are."""
        return self.queries / max(1.0, self.design_effect)
