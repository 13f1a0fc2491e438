"""Percentiles of times, with the order statistics that are their ends.

Times are nanoseconds, int64, shape (queries, repetitions) or, in several processes, (processes,
queries). All percentiles interpolate linearly between order statistics (type 7 of Hyndman and Fan,
1996). Times of several processes: ``harness.stats.times.processes``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate

Nanoseconds = NDArray[np.int64]


def percentile_ns(elapsed_ns: Nanoseconds, percent: float) -> float:
    """Percentile over every query and repetition."""
    return float(_percentile(checked(elapsed_ns).reshape(1, -1), percent)[0])


def order_interval(
    elapsed_ns: Nanoseconds, percent: float, *, confidence: float
) -> Estimate | None:
    """Percentile of independent times with its order-statistic interval, nanoseconds.

    The number of times below the true percentile is binomial. So two of the sorted times are the
    ends of an interval, for any distribution (Conover, "Practical Nonparametric Statistics", 3rd
    ed., section 3.2). None if the times are too few.
    """
    times = checked(elapsed_ns).reshape(1, -1)
    low, high = order_ends(times, percent, (1 - confidence) / 2)
    if not low or math.isinf(high):
        return None
    return Estimate(percentile_ns(elapsed_ns, percent), low, high, times.size)


def order_ends(values: NDArray[np.float64], percent: float, tail: float) -> tuple[float, float]:
    """Return order statistics beyond which the percentile lies at a rate of ``tail`` a side.

    ``values`` are above 0, shape (processes, queries). Queries are counted: an end leaves as many
    values beyond it as the processes have of that many whole queries. A missing end is 0 or
    infinity.
    """
    processes, queries = values.shape
    ordered, share = np.sort(values, axis=None), percent / 100
    counts = np.arange(queries, dtype=np.float64)
    under, over = (int((bdtr(counts, queries, one) <= tail).sum()) for one in (share, 1 - share))
    return (
        float(ordered[(under - 1) * processes]) if under else 0.0,
        float(ordered[-1 - (over - 1) * processes]) if over else math.inf,
    )


def checked(elapsed_ns: Nanoseconds) -> NDArray[np.float64]:
    """Give the times as floats, which cannot wrap when they are summed."""
    if not elapsed_ns.size:
        raise EvidenceError("no times were given; race at least one query")
    if elapsed_ns.min() <= 0:
        raise EvidenceError(
            f"a time of {elapsed_ns.min()} ns is not above 0: a counter wrapped or was never set"
        )
    return elapsed_ns.astype(np.float64)


def _percentile(rows: NDArray[np.float64], percent: float) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.percentile(rows, percent, axis=1)
    return found
