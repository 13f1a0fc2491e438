"""Percentiles of times that depend on those before them, as times of live traffic do.

A busy machine stays busy for a while, so a thousand consecutive times carry less information than a
thousand independent ones. How much less is the long-run variance of "is at most the percentile". It
is the variance of the moving block bootstrap of that share (Künsch, Annals of Statistics 17, 1989).
No draws are needed: the blocks' own shares give it (overlapping batch means; Meketon and Schmeiser,
1984). The blocks are long, a fixed part of the series, so that it is not too small, and the few
blocks that fit are paid for with Student's reach. docs/decisions/0010 says why it is not the
stationary bootstrap, 0011 how long the blocks are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.times.quantiles import Nanoseconds, percentile_ns

BLOCKS = 10
FREEDOM = 1.5
"""Overlapping blocks tell as much as this many times the blocks that lie side by side."""
FEWEST_BEYOND = 10
"""Times that must be expected on either side of the percentile."""
FEWEST_WORTH = 5
"""Independent times that the series must be worth on either side. The worth is a guess, and who
asks for much of it keeps the series whose worth was guessed too high."""


def series_interval(
    elapsed_ns: Nanoseconds, percent: float, *, confidence: float
) -> Estimate | None:
    """Percentile of times in the order they were taken, shape (times,), with its interval.

    The interval is that of a binomial with the effective sample size of the series, applied to the
    sorted times (Woodruff, JASA 47, 1952). ``n`` counts the times. None if the effective sample
    size is too small for this percentile.

    Raises:
        EvidenceError: times are missing, one is not above 0, or they have no order.
    """
    if elapsed_ns.ndim != 1:
        raise EvidenceError(
            f"times of shape {elapsed_ns.shape} are in no one order; give one series of times"
        )
    value = percentile_ns(elapsed_ns, percent)
    share = percent / 100
    beyond = min(share, 1 - share)
    if len(elapsed_ns) * beyond < FEWEST_BEYOND:
        return None
    effective = effective_sample_size(elapsed_ns <= value)
    if effective * beyond < FEWEST_WORTH:
        return None
    tail = (1 - confidence) / 2
    effective *= (float(ndtri(tail)) / float(stdtrit(FREEDOM * (BLOCKS - 1), tail))) ** 2
    under = share * effective
    levels = (
        float(betaincinv(under, effective - under + 1, tail)),
        float(betaincinv(under + 1, effective - under, 1 - tail)),
    )
    low, high = np.quantile(elapsed_ns.astype(np.float64), levels)
    return Estimate(value, float(low), float(high), len(elapsed_ns))


def effective_sample_size(flags: NDArray[np.bool_]) -> float:
    """Effective sample size of dependent flags, shape (times,).

    It is an estimate and may exceed the number of flags: a cap would make it too low for
    independent times. Needs at least as many flags as blocks.
    """
    count = len(flags)
    share = float(flags.mean())
    length = count // BLOCKS
    sums = np.concatenate([[0.0], np.cumsum(flags - share)])
    of_blocks = (sums[length:] - sums[:-length]) / length
    variance = length * float((of_blocks**2).mean()) * count / (count - length)
    if math.isclose(variance, 0, abs_tol=1e-300):
        return float(count)
    return count * share * (1 - share) / variance
