"""Agreement of several assessors on grades: Krippendorff's alpha and Fleiss' kappa.

Alpha is for ordered grades and for units that any two or more judged (Krippendorff, Content
Analysis, 4th ed. 2018, chapter 12). Fleiss' kappa (Psychological Bulletin 76, 1971) takes grades as
names. Intervals are those of the jackknife over clusters, as for Cohen's kappa.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.core.scores import Estimate
from harness.stats.raters.kappa import jackknifed

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def alpha(units: Sequence[Sequence[int]], clusters: Codes, *, confidence: float) -> Estimate | None:
    """Give Krippendorff's alpha for ordered grades.

    ``units`` has the grades of each unit, two at least; ``clusters``, shape (units,), says which
    units depend on each other. None where all grades are one.

    Raises:
        EvidenceError: there are fewer than three clusters.
    """
    counts = _counts(units)
    of = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :]
    places = np.arange(counts.shape[1])
    pairs[:, places, places] -= counts
    tables = _by_cluster(pairs / (of - 1)[:, None, None], clusters)

    def value(table: Floats) -> float:
        each = table.sum(axis=1)
        total = each.sum()
        below = np.cumsum(each) - each / 2
        apart = (below[:, None] - below[None, :]) ** 2
        expected = float((each[:, None] * each[None, :] * apart).sum())
        observed = float((table * apart).sum())
        return 1 - (total - 1) * observed / expected if expected > 0 else math.nan

    return jackknifed(tables, value, confidence=confidence, n=len(units))


def fleiss(
    units: Sequence[Sequence[int]], clusters: Codes, *, confidence: float
) -> Estimate | None:
    """Give Fleiss' kappa of units that equally many judged; None where all grades are one.

    Raises:
        ValueError: units have different numbers of grades.
        EvidenceError: there are fewer than three clusters.
    """
    raters = {len(unit) for unit in units}
    if len(raters) > 1:
        raise ValueError(f"units have {sorted(raters)} grades; Fleiss' kappa needs one number")
    many = max(raters, default=2)
    counts = _counts(units)
    agreed = ((counts**2).sum(axis=1) - many) / (many * (many - 1))
    rows = np.column_stack([counts / many, agreed, np.ones(len(units))])
    tables = _by_cluster(rows, clusters)

    def value(table: Floats) -> float:
        total = table[-1]
        expected = float(((table[:-2] / total) ** 2).sum())
        return (table[-2] / total - expected) / (1 - expected) if expected < 1 else math.nan

    return jackknifed(tables, value, confidence=confidence, n=len(units))


def _counts(units: Sequence[Sequence[int]]) -> Floats:
    """Count the grades of each unit, shape (units, grades), the lowest grade first."""
    grades = sorted({grade for unit in units for grade in unit})
    found = [[float(list(unit).count(grade)) for grade in grades] for unit in units]
    return np.array(found).reshape(len(units), len(grades))


def _by_cluster(values: Floats, clusters: Codes) -> Floats:
    names, of = np.unique(clusters, return_inverse=True)
    found = np.zeros((len(names), *values.shape[1:]))
    np.add.at(found, of, values)
    return found
