"""Agreement of two assessors beyond what their habits alone give, with an interval.

Cohen's kappa (Educational and Psychological Measurement 20, 1960; weighted: Psychological Bulletin
70, 1968). The interval is that of the jackknife over clusters, since judgements of one query are
alike, with Student's reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.scores import Estimate

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Grades = NDArray[np.float64] | NDArray[np.int64]
Weights = Literal["none", "linear", "quadratic"]
POWERS = {"none": 0, "linear": 1, "quadratic": 2}
FEWEST = 3


def kappa(
    one: Grades, other: Grades, clusters: Codes, *, confidence: float, weights: Weights = "none"
) -> Estimate:
    """Give Cohen's kappa of two assessors; all arrays have shape (judgements,).

    A disagreement weighs by the distance of the grades, or by its square, or 1 without ``weights``.
    ``n`` counts judgements. Where both give one and the same grade to all, it is 0 with an interval
    of 0 to 1: nothing was told apart.

    Raises:
        EvidenceError: there are fewer than three clusters.
    """
    grades, code = np.unique(np.concatenate([one, other]), return_inverse=True)
    names, of = np.unique(clusters, return_inverse=True)
    tables = np.zeros((len(names), len(grades), len(grades)))
    np.add.at(tables, (of, code[: len(one)], code[len(one) :]), 1.0)
    apart = np.abs(grades[:, None] - grades[None, :]).astype(np.float64)
    cost = np.where(apart > 0, apart ** POWERS[weights], 0.0)

    def value(table: Floats) -> float:
        expected = table.sum(axis=1)[:, None] * table.sum(axis=0)[None, :] / table.sum()
        worst = float((cost * expected).sum())
        return 1 - float((cost * table).sum()) / worst if worst > 0 else math.nan

    found = jackknifed(tables, value, confidence=confidence, n=len(one))
    return Estimate(0.0, 0.0, 1.0, len(one)) if found is None else found


def jackknifed(
    tables: Floats,
    value: Callable[[Floats], float],
    *,
    confidence: float,
    n: int,
    within: tuple[float, float] = (-1.0, 1.0),
) -> Estimate | None:
    """Give ``value`` of the sum of all tables, shape (clusters, ...), and an interval ``within``.

    None where it is not defined. Where it is not defined without a cluster, the value of all stands
    for it.

    Raises:
        EvidenceError: there are fewer than three clusters.
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
    low, high = max(within[0], found - reach), min(within[1], found + reach)
    return Estimate(found, low, high, n)
