"""How many queries would settle a question, and how small a difference these can show.

Normal approximation for the mean of paired differences, as in Chow, Shao and Wang, "Sample Size
Calculations in Clinical Research" (2008), section 3.1: an interval of the given confidence clears
a bound at distance ``gap`` with the given power when

    queries = ((z(confidence) + z(power)) * spread / gap) ** 2

The spread is the observed one; with clusters it is the one whose square over the number of
queries is the variance of the clustered mean, so more queries are taken to come in like clusters.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from harness.core.errors import EvidenceError
from harness.stats.bootstrap import FEWEST, by_cluster


def queries_needed(
    differences: NDArray[np.float64],
    *,
    bound: float,
    confidence: float,
    power: float,
    clusters: NDArray[np.int64] | None,
) -> int | None:
    """Count the queries whose interval would clear ``bound``, were mean and spread as observed.

    ``differences`` has shape (queries,). None where the observed mean is the bound itself: then
    no number of queries is expected to settle it.

    Raises:
        EvidenceError: fewer than two independent queries.
    """
    gap = abs(float(differences.mean()) - bound)
    if math.isclose(gap, 0, abs_tol=1e-12):
        return None
    reach = _z(confidence, power) * _spread(differences, clusters)
    return max(FEWEST, math.ceil((reach / gap) ** 2))


def detectable(
    differences: NDArray[np.float64],
    *,
    confidence: float,
    power: float,
    clusters: NDArray[np.int64] | None,
) -> float:
    """Smallest distance of the true mean from a bound that as many queries show with ``power``.

    Raises:
        EvidenceError: fewer than two independent queries.
    """
    reach = _z(confidence, power) * _spread(differences, clusters)
    return float(reach / math.sqrt(len(differences)))


def _z(confidence: float, power: float) -> float:
    return float(ndtri(1 - (1 - confidence) / 2) + ndtri(power))


def _spread(differences: NDArray[np.float64], clusters: NDArray[np.int64] | None) -> float:
    """Give the deviation per query: its square over the queries is the variance of the mean."""
    sums, sizes = by_cluster(differences, clusters)
    units = len(sums)
    if units < FEWEST:
        raise EvidenceError(f"{units} independent queries have no spread; ask at least {FEWEST}")
    residuals = sums - sizes * differences.mean()
    variance_of_sum = (residuals**2).sum() * units / (units - 1)
    return math.sqrt(variance_of_sum / len(differences))
