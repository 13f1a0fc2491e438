"""Percentiles of times of one process, with intervals.

Times are nanoseconds, int64, shape (queries, repetitions). The repetitions of one query are not
independent, so intervals over several repetitions resample whole queries. All percentiles
interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996). The bootstrap
intervals are plain percentile intervals: they stay right under a logarithm, while the jackknife of
BCa is not consistent for a quantile. Times of several processes: ``harness.stats.times.processes``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.counter_rng import Purpose, picks

TIMES_AT_ONCE = 1 << 20
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
    times = np.sort(checked(elapsed_ns), axis=None)
    count = len(times)
    chance = bdtr(np.arange(count, dtype=np.float64), count, percent / 100)
    tail = (1 - confidence) / 2
    low = int((chance <= tail).sum()) - 1
    high = int((chance < 1 - tail).sum())
    if low < 0 or high >= count:
        return None
    return Estimate(
        percentile_ns(elapsed_ns, percent), float(times[low]), float(times[high]), count
    )


def clustered(
    elapsed_ns: Nanoseconds, percent: float, *, confidence: float, resamples: int, seed: int
) -> Estimate:
    """Percentile over queries and repetitions, nanoseconds; whole queries are resampled.

    Raises:
        EvidenceError: times are missing, or one is not above 0.
    """
    times = checked(elapsed_ns)
    drawn = _draws(times, percent, resamples, seed)
    return _estimate(percentile_ns(elapsed_ns, percent), drawn, len(times), confidence)


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


def _draws(
    times: NDArray[np.float64], percent: float, resamples: int, seed: int
) -> NDArray[np.float64]:
    """Percentiles over resampled queries, shape (resamples,)."""
    queries = len(times)
    drawn = np.empty(resamples)
    block = max(1, TIMES_AT_ONCE // times.size)
    for start in range(0, resamples, block):
        stop = min(start + block, resamples)
        rows = picks(seed, Purpose.TIMES, first=start, rows=stop - start, units=queries)
        drawn[start:stop] = _percentile(times[rows].reshape(stop - start, -1), percent)
    return drawn


def _estimate(
    value: float, drawn: NDArray[np.float64], queries: int, confidence: float
) -> Estimate:
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), queries)
