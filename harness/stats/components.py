"""Sources of the variance of a difference, when corpora or assessors are sampled too.

Analysis of variance: mean squares are set equal to their expectations and solved (method of
moments). Searle, Casella and McCulloch, "Variance Components", 1992: chapter 3 for one-way data of
unequal sizes, 4.5 for a crossed table without repetition. An estimate below 0 is shown as 0: the
data then say that the component is smaller than its noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.scores import Estimate

Floats = NDArray[np.float64]
FEWEST = 2
ROUNDING = 1e-9


class Component(NamedTuple):
    """What one source adds to the variance of a query's difference."""

    source: str
    variance: float
    df: int
    """Degrees of freedom of its mean square."""
    below_zero: bool
    """Whether the estimate lay below 0 and is shown as 0."""


class Components(NamedTuple):
    """All sources, and the mean with and without those that are not queries."""

    parts: tuple[Component, ...]
    queries_alone: Estimate
    """The mean with an interval for other queries of the same corpora or assessors."""
    anew: Estimate
    """The same mean with an interval for other corpora or assessors as well."""

    @property
    def total(self) -> float:
        """Variance of one difference."""
        return sum(part.variance for part in self.parts)


def of_corpora(corpora: Sequence[Floats], *, confidence: float) -> Components:
    """Decompose the differences of several corpora; each array has shape (queries,).

    The mean is that of the corpora, each counting once. For other corpora too its interval is
    Student's over the corpora's means.

    Raises:
        EvidenceError: fewer than two corpora, or one with fewer than two queries.
    """
    _enough("corpora", [len(values) for values in corpora])
    sizes = np.array([len(values) for values in corpora], dtype=np.float64)
    means = np.array([values.mean() for values in corpora])
    count, total = len(corpora), float(sizes.sum())
    inside = sum(float(((values - values.mean()) ** 2).sum()) for values in corpora)
    overall = float(sizes @ means / total)
    within = inside / (total - count)
    between = float(sizes @ (means - overall) ** 2) / (count - 1)
    each = (total - float((sizes**2).sum()) / total) / (count - 1)
    parts = (
        _component("corpus", (between - within) / each, count - 1),
        _component("query", within, int(total) - count),
    )
    mean, queries = float(means.mean()), int(total)
    alone = math.sqrt(within * float((1 / sizes).sum())) / count
    anew = float(means.std(ddof=1)) / math.sqrt(count)
    return Components(
        parts,
        _estimate(mean, alone, queries - count, queries, confidence),
        _estimate(mean, anew, count - 1, queries, confidence),
    )


def of_assessors(table: Floats, *, confidence: float) -> Components:
    """Decompose differences by query and assessor, shape (queries, assessors).

    What is left of a query and an assessor together is one component, for each value is there once.
    The variance of the mean is summed from the components; its degrees of freedom are those of the
    mean squares in it (Satterthwaite, Biometrics Bulletin 2, 1946).

    Raises:
        EvidenceError: fewer than two queries or assessors.
    """
    _enough("assessors", [len(column) for column in table.T])
    queries, assessors = table.shape
    mean = float(table.mean())
    by_query, by_assessor = table.mean(axis=1), table.mean(axis=0)
    rest = table - by_query[:, None] - by_assessor[None, :] + mean
    free = (queries - 1) * (assessors - 1)
    squares = np.array([
        assessors * float(((by_query - mean) ** 2).sum()) / (queries - 1),
        queries * float(((by_assessor - mean) ** 2).sum()) / (assessors - 1),
        float((rest**2).sum()) / free,
    ])
    frees = (queries - 1, assessors - 1, free)
    parts = (
        _component("query", (squares[0] - squares[2]) / assessors, frees[0]),
        _component("assessor", (squares[1] - squares[2]) / queries, frees[1]),
        _component("query by assessor, and error", squares[2], frees[2]),
    )
    alone = float(by_query.std(ddof=1)) / math.sqrt(queries)
    shares = squares * np.array([1.0, 1.0, -1.0]) / (queries * assessors)
    variance = float(shares.sum())
    df = float(queries - 1)
    if variance > alone**2 * (1 + ROUNDING):
        df = max(1.0, variance**2 / float((shares**2 / np.array(frees)).sum()))
    return Components(
        parts,
        _estimate(mean, alone, queries - 1, queries, confidence),
        _estimate(mean, max(math.sqrt(max(variance, 0.0)), alone), df, queries, confidence),
    )


def assessor_deviation(components: Components, queries: int) -> float:
    """Deviation of the mean over ``queries`` from one assessor to another.

    Of the components of ``of_assessors``.
    """
    by = {part.source: part.variance for part in components.parts}
    _, assessor, rest = by.values()
    return math.sqrt(assessor + rest / queries)


def _enough(what: str, sizes: Sequence[int]) -> None:
    if len(sizes) < FEWEST or min(sizes) < FEWEST:
        raise EvidenceError(
            f"components of variance need {FEWEST} {what} or more with {FEWEST} queries each; there"
            f" are {len(sizes)}, and the smallest has {many(min(sizes, default=0), 'query')}"
        )


def _component(source: str, variance: float, df: int) -> Component:
    return Component(source, max(0.0, float(variance)), df, variance < 0)


def _estimate(mean: float, error: float, df: float, queries: int, confidence: float) -> Estimate:
    reach = float(stdtrit(df, (1 + confidence) / 2)) * error
    return Estimate(mean, mean - reach, mean + reach, queries)
