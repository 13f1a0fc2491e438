"""Agreement of assessors beyond chance: kappa, alpha and intervals."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.stats.bootstrap import by_cluster

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Grades = NDArray[np.float64] | NDArray[np.int64]
FEWEST = 3


def kappa(one: Grades, other: Grades, clusters: Codes, *, confidence: float) -> Estimate:
    """Return Cohen's kappa of two assessors; all arrays have shape (judgements,).

    A disagreement weighs by the square of the distance of the grades. ``n`` counts judgements.
    Where both give one and the same grade to all, it is 0 with an interval of 0 to 1: nothing was
    told apart.
    """
    grades, code = np.unique(np.concatenate([one, other]), return_inverse=True)
    names, of = np.unique(clusters, return_inverse=True)
    tables = np.zeros((len(names), len(grades), len(grades)))
    np.add.at(tables, (of, code[: len(one)], code[len(one) :]), 1.0)
    cost = (grades[:, None] - grades[None, :]).astype(np.float64) ** 2

    def value(table: Floats) -> float:
        expected = table.sum(axis=1)[:, None] * table.sum(axis=0)[None, :] / table.sum()
        worst = float((cost * expected).sum())
        return 1 - float((cost * table).sum()) / worst if worst > 0 else math.nan

    found = jackknifed(tables, value, confidence=confidence, n=len(one))
    return Estimate(0.0, 0.0, 1.0, len(one)) if found is None else found


def jackknifed(
    tables: Floats, value: Callable[[Floats], float], *, confidence: float, n: int
) -> Estimate | None:
    """Return ``value`` of the sum of all tables, shape (clusters, ...), with its interval.

    Both lie between -1 and 1. None where it is not defined. Where it is not defined without a
    cluster, the value of all stands for it.
    """
    count = len(tables)
    if count < FEWEST:
        raise EvidenceError(
            f"{many(count, 'query was')} judged twice; at least {FEWEST} are needed"
        )
    whole = tables.sum(axis=0)
    found = value(whole)
    if math.isnan(found):
        return None
    left_out = np.array([value(whole - table) for table in tables])
    left_out = np.where(np.isnan(left_out), found, left_out)
    spread = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    reach = float(stdtrit(count - 1, 1 - (1 - confidence) / 2)) * spread
    return Estimate(found, max(-1.0, found - reach), min(1.0, found + reach), n)


def alpha(units: Sequence[Sequence[int]], clusters: Codes, *, confidence: float) -> Estimate | None:
    """Return Krippendorff's alpha for ordered grades.

    ``units`` has the grades of each unit, two at least; ``clusters``, shape (units,), says which
    units depend on each other. None where all grades are one.
    """
    counts = _counts(units)
    of = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :]
    places = np.arange(counts.shape[1])
    pairs[:, places, places] -= counts
    tables, _ = by_cluster(pairs / (of - 1)[:, None, None], clusters)

    def value(table: Floats) -> float:
        each = table.sum(axis=1)
        total = each.sum()
        below = np.cumsum(each) - each / 2
        apart = (below[:, None] - below[None, :]) ** 2
        expected = float((each[:, None] * each[None, :] * apart).sum())
        observed = float((table * apart).sum())
        return 1 - (total - 1) * observed / expected if expected > 0 else math.nan

    return jackknifed(tables, value, confidence=confidence, n=len(units))


def _counts(units: Sequence[Sequence[int]]) -> Floats:
    """Count the grades of each unit, shape (units, grades), the lowest grade first."""
    grades = sorted({grade for unit in units for grade in unit})
    found = [[float(list(unit).count(grade)) for grade in grades] for unit in units]
    return np.array(found).reshape(len(units), len(grades))
