"""How sure a mean over queries is, however often it was looked at while queries were added.

Against each possible mean, bets are placed on every query that it is more, each with a fixed share
of the capital. A query of value x multiplies that capital by 1 - share + share * x / mean. Against
the true mean no bet is expected to win. By Ville's inequality the probability that their total
capital ever reaches 1 / level is at most ``level``. This holds at every look and for every rule of
stopping. The capital is a product, so the order of the queries does not matter. The bets are those
of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86
(2024). Several fixed shares instead of an adaptive one are the mixture of Cover, "Universal
portfolios", Mathematical Finance 1 (1991).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import exp, log, log1p
from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.stats.bootstrap import FEWEST, by_cluster
from harness.stats.bounded import Span

SHARES = np.ldexp(1.0, -np.arange(6))
"""Of the capital, at stake if a value is the least there can be; from all of it to a 32nd."""
HALVINGS = 40
"""An end is known to a trillionth of the span."""
LEAST_MEAN = 1e-12
MOST_TIMES = 1_000.0
"""Above this multiple of the present queries, more judging is not suggested."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def evalues_each(
    values: Floats,
    *,
    span: Span,
    confidence: float,
    clusters: Codes | None,
    largest: float = 0.0,
) -> tuple[Estimate, ...]:
    """Mean of each column of ``values``, shape (queries, columns), with its two-sided interval.

    All intervals that are made while queries are added hold the mean together with the given
    confidence; each end alone errs with half of what it leaves. With ``clusters``, shape
    (queries,), a cluster of S queries is one bet of S times the stake of one query. The largest
    cluster has the whole stake: one that was seen, or of the share ``largest`` of the queries.
    The mean is that over queries, as long as no larger cluster comes after the first look.

    Raises:
        EvidenceError: fewer than two queries (or clusters), or a value is not within ``span``.
    """
    units, stakes = _units(values, span, clusters, largest)
    wealth = math.log(2 / (1 - confidence))
    width = span.most - span.least
    means = np.ascontiguousarray(values.T).mean(axis=1)
    lows = span.least + width * _low_ends(units, stakes, wealth)
    highs = span.most - width * _low_ends(1 - units, stakes, wealth)
    return tuple(
        Estimate(float(mean), float(min(low, mean)), float(max(high, mean)), len(values))
        for mean, low, high in zip(means, lows, highs, strict=True)
    )


def p_above(
    values: Floats, bound: float, *, span: Span, clusters: Codes | None, largest: float = 0.0
) -> float:
    """Give the p-value of "the mean is ``bound`` or less", shape (queries,), valid at every look.

    It is one over what the gamblers made of 1.

    Raises:
        EvidenceError: as ``evalues_each``.
    """
    units, stakes = _units(values.reshape(-1, 1), span, clusters, largest)
    mean = np.array([(bound - span.least) / (span.most - span.least)])
    return float(exp(-np.maximum(_capital(units, stakes, mean), 0.0))[0])


def times_needed(
    values: Floats,
    bound: float,
    *,
    span: Span,
    confidence: float,
    clusters: Codes | None,
    largest: float = 0.0,
) -> float | None:
    """Say how many times as many queries like these, shape (queries,), would clear ``bound``.

    None where ``MOST_TIMES`` would not do, as where their mean lies on the bound.

    Raises:
        EvidenceError: as ``evalues_each``.
    """
    units, stakes = _units(values.reshape(-1, 1), span, clusters, largest)
    mean = np.array([(bound - span.least) / (span.most - span.least)])
    if units[0] @ stakes / stakes.sum() < mean[0]:
        units, mean = 1 - units, 1 - mean
    wealth = math.log(2 / (1 - confidence))
    low, high = 0.0, MOST_TIMES
    if _capital(units, stakes, mean, high)[0] < wealth:
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _capital(units, stakes, mean, middle)[0] >= wealth else (middle, high)
        )
    return high


def _units(
    values: Floats, span: Span, clusters: Codes | None, largest: float
) -> tuple[Floats, Floats]:
    """Give means of the clusters as shares of the span, (columns, clusters), and their stakes."""
    sums, sizes = by_cluster(values, clusters)
    if len(sums) < FEWEST:
        raise EvidenceError(
            f"{many(len(sums), 'independent query has')} no spread to learn from; ask at least"
            f" {FEWEST}"
        )
    if not (span.least <= values.min() and values.max() <= span.most):
        raise EvidenceError(
            f"values from {values.min():g} to {values.max():g} are not all within {span.least:g}"
            f" and {span.most:g}; nothing may be said of their mean"
        )
    units = (sums / sizes[:, None] - span.least) / (span.most - span.least)
    return np.ascontiguousarray(units.T), sizes / max(sizes.max(), largest * sizes.sum())


def _low_ends(units: Floats, stakes: Floats, wealth: float) -> Floats:
    """Give the greatest mean of each column that its gamblers got rich against, 0 where none is.

    They win nothing against the mean that was seen, and the more the lower a mean is.
    """
    low, high = np.zeros(len(units)), (units * stakes).sum(axis=1) / stakes.sum()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rich = _capital(units, stakes, middle) >= wealth
        low, high = np.where(rich, middle, low), np.where(rich, high, middle)
    return low


def _capital(units: Floats, stakes: Floats, means: Floats, times: float = 1.0) -> Floats:
    """Logarithm of what betting on more than ``means`` has made of 1, shape (columns,).

    ``times`` counts each unit so often.
    """
    ahead = stakes * (units / np.maximum(means, LEAST_MEAN)[:, None] - 1)
    with np.errstate(divide="ignore"):
        made = np.array([times * log1p(share * ahead).sum(axis=1) for share in SHARES])
    best = made.max(axis=0)
    found: Floats = best + log(exp(made - best).mean(axis=0))
    return found
