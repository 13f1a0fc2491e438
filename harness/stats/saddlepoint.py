"""The sign-flip test without random signs: a cross-check of the drawn p-value that decides nothing.

Robinson, "Saddlepoint approximations for permutation tests and confidence intervals", JRSS B 44
(1982), with the tail of Lugannani and Rice, Advances in Applied Probability 12 (1980).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from harness.core.elementary import exp, log1p, tanh_and_sech2
from harness.core.errors import EvidenceError
from harness.stats.bootstrap import by_cluster
from harness.stats.randomization import Alternative

MIDDLE = 1e-6
"""Nearer to the middle than so many deviations the chance is a half: the formula divides by 0."""

Floats = NDArray[np.float64]


def saddlepoint(
    differences: Floats,
    *,
    shift: float,
    alternative: Alternative,
    clusters: NDArray[np.int64] | None,
) -> float:
    """Approximate p-value of "the mean of ``differences``, shape (queries,), is ``shift``".

    The relative error falls with the number of queries and holds far out in the tail, where no
    draw comes. Sums are taken for continuous: among many ties the drawn p-value, which counts
    equal sums as extreme, is larger.

    Raises:
        EvidenceError: differences are missing, or one is not finite.
    """
    if not len(differences) or not np.isfinite(differences).all():
        raise EvidenceError("a randomization test needs differences, all of them finite")
    sums, _ = by_cluster(differences - shift, clusters)
    observed = float(sums.sum())
    if alternative == "two-sided":
        return min(1.0, 2 * _above(sums, abs(observed)))
    return _above(sums, observed if alternative == "greater" else -observed)


def _above(values: Floats, observed: float) -> float:
    """Chance that the sum of ``values`` under random signs is at least ``observed``."""
    if observed < 0:
        return 1 - _above(values, -observed)
    sizes = np.abs(values[values != 0])
    deviation = math.sqrt((sizes**2).sum())
    if observed <= MIDDLE * deviation:
        return 0.5 if len(sizes) else 1.0
    if observed >= sizes.sum() * (1 - MIDDLE):
        return float(0.5 ** len(sizes))
    unit = sizes / deviation
    tilt = _tilt(unit, observed / deviation)
    tilted = tilt * unit
    exponent = (tilted + log1p(exp(-2 * tilted)) - math.log(2)).sum()
    signed_root = math.sqrt(2 * (tilt * observed / deviation - exponent))
    curved = tilt * math.sqrt((unit**2 * tanh_and_sech2(tilted)[1]).sum())
    density = math.exp(-(signed_root**2) / 2) / math.sqrt(2 * math.pi)
    return float(ndtr(-signed_root) + density * (1 / curved - 1 / signed_root))


def _tilt(unit: Floats, wanted: float) -> float:
    """Give the tilt of the signs under which ``wanted`` is the sum that is expected."""

    def short(tilt: float) -> float:
        return wanted - float((unit * tanh_and_sech2(tilt * unit)[0]).sum())

    high = 1.0
    while short(high) > 0:
        high *= 2
    return float(brentq(short, 0.0, high, xtol=1e-12))
