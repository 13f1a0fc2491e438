"""Estimates of several similar things, each shrunk to the mean of all by its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from harness.core.scores import Estimate

Floats = NDArray[np.float64]


def pooled(estimates: Sequence[Estimate], *, confidence: float) -> Floats:
    """Give the empirical-Bayes mean of each estimate, shape (estimates,), in the order given.

    The normal-normal model of Efron and Morris (JASA 70, 1975). The truths are normal around one
    mean, and each estimate is normal around its truth, with the deviation of its interval at
    ``confidence``. The variance between the truths is that of Paule and Mandel (Journal of Research
    of the National Bureau of Standards 87, 1982). The worst of many estimates is partly bad luck;
    pooling corrects for it. Slices may share queries, so this is a description and decides nothing.
    """
    values = np.array([one.value for one in estimates])
    reach = ndtri(1 - (1 - confidence) / 2)
    variances = np.array([((one.high - one.low) / (2 * reach)) ** 2 for one in estimates])
    if len(values) < 2 or not (variances > 0).all():  # noqa: PLR2004  one has none to be drawn to
        return values
    between = _between(values, variances)
    weights = 1 / (variances + between)
    mean = (weights * values).sum() / weights.sum()
    kept = between / (variances + between)
    return np.asarray(mean + kept * (values - mean))


def _between(values: Floats, variances: Floats) -> float:
    """Variance between the truths, under which the estimates are as far apart as they should be."""

    def excess(between: float) -> float:
        weights = 1 / (variances + between)
        mean = (weights * values).sum() / weights.sum()
        return float((weights * (values - mean) ** 2).sum()) - (len(values) - 1)

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, float(((values - values.mean()) ** 2).sum()) + 1.0))
