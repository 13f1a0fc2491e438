"""Agreement of two assessors beyond what their habits alone give, with an interval.

Cohen's kappa (Educational and Psychological Measurement 20, 1960) over judgements of relevance. The
interval is that of the jackknife over clusters, since judgements of one query are alike, with
Student's reach.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
FEWEST = 3


def kappa(one: Floats, other: Floats, clusters: Codes, *, confidence: float) -> Estimate:
    """Give Cohen's kappa of two assessors; all arrays have shape (judgements,), values 0 and 1.

    ``n`` counts judgements. Where both give one and the same grade to all, it is 0 with an interval
    of 0 to 1: nothing was told apart.

    Raises:
        EvidenceError: there are fewer than three clusters.
    """
    names, code = np.unique(clusters, return_inverse=True)
    if len(names) < FEWEST:
        raise EvidenceError(f"{len(names)} queries were judged twice; at least {FEWEST} are needed")
    parts = np.stack([
        np.bincount(code, weights=values, minlength=len(names))
        for values in (np.ones(len(one)), one, other, one * other)
    ])
    whole = parts.sum(axis=1)
    value = float(_kappa(whole[:, None])[0])
    if math.isnan(value):
        return Estimate(0.0, 0.0, 1.0, len(one))
    left_out = _kappa(whole[:, None] - parts)
    left_out = np.where(np.isnan(left_out), value, left_out)
    count = len(names)
    spread = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    reach = float(stdtrit(count - 1, 1 - (1 - confidence) / 2)) * spread
    return Estimate(value, max(-1.0, value - reach), min(1.0, value + reach), len(one))


def _kappa(sums: Floats) -> Floats:
    """Give kappa of each column of sums: judgements, relevant to one, to the other, to both."""
    count, one, other, both = sums
    agreed = (count - one - other + 2 * both) / count
    expected = (one * other + (count - one) * (count - other)) / count**2
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(expected < 1, (agreed - expected) / (1 - expected), np.nan)
    return found
