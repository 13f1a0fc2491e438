"""Percentiles of times that were taken in several processes, and the ratios of two arms.

Times are nanoseconds, int64, shape (processes, queries): every process timed the same queries once.
Two things were drawn, and each has its own error. Other queries would have other times; other
processes would lie elsewhere in memory, hash and link otherwise (Kalibera and Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013). Queries are many and are resampled, all processes
keeping the same ones. Processes are few, and a bootstrap of three is too narrow, so their error
is Student's, of the percentile of each process by itself. Both are put together on the scale of
logarithms as the square root of their squares (MOVER: Zou and Donner, Statistics in Medicine
27, 2008). docs/decisions/0025 has the coverage.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtrit

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.counter_rng import Purpose, picks
from harness.stats.inference import Inference
from harness.stats.times.quantiles import Nanoseconds, checked

TIMES_AT_ONCE = 1 << 21
KEPT = 32
"""Resampled times that are cached."""
MEAN = "mean"
Floats = NDArray[np.float64]


def percentile(elapsed_ns: Nanoseconds, percent: float, *, confidence: float) -> Estimate:
    """Percentile over processes and queries, nanoseconds.

    How many queries lie below the true percentile is binomial, whatever the distribution. That
    gives two order statistics of the queries (Conover, "Practical Nonparametric Statistics", 3rd
    ed., section 3.2). An end is the middle of the times of that query, as if queries were alike in
    all processes, widened by the error of processes. An end is missing (0, infinity) if too few
    queries could lie beyond the percentile (``fewest_for``). With one process both are missing.

    Raises:
        EvidenceError: times are missing, or one is not above 0.
    """
    times = checked(elapsed_ns)
    queries, tail = times.shape[1], (1 - confidence) / 2
    chance = bdtr(np.arange(queries, dtype=np.float64), queries, percent / 100)
    low, high = int((chance <= tail).sum()) - 1, int((chance < 1 - tail).sum())
    ends = (
        -math.inf if low < 0 else _log_level(times, (low + 0.5) / queries),
        math.inf if high >= queries else _log_level(times, (high + 0.5) / queries),
    )
    own = np.log(np.percentile(times, percent, axis=1))
    return _joined(_log_level(times, percent / 100), ends, own, queries, confidence)


def ratio(
    candidate_ns: Nanoseconds,
    control_ns: Nanoseconds,
    percent: float | None,
    *,
    inference: Inference,
) -> Estimate:
    """Candidate's percentile over control's; the ratio of means for ``percent=None``.

    Both arms keep the same resampled queries, and the same processes. With too few queries for the
    percentile, the interval is 0 to infinity.

    Raises:
        EvidenceError: the shapes differ, times are missing, or one is not above 0.
    """
    return _ratio(
        candidate_ns,
        control_ns,
        percent,
        confidence=inference.confidence,
        resamples=inference.resamples,
        seed=inference.seed,
    )


def aa_ratio(
    elapsed_ns: Nanoseconds,
    percent: float | None,
    *,
    inference: Inference,
) -> Estimate:
    """Divide an arm's percentile in every other process by that in the rest: 1 if all is steady.

    Each process opened the index anew, so this is the A/A control. Its interval is over queries
    alone, since the difference between the two halves of processes is the result itself.

    Raises:
        EvidenceError: there are fewer than two processes, or a time is not above 0.
    """
    if len(elapsed_ns) <= 1:
        raise EvidenceError("one process has no other to be compared with; race in two or more")
    odd, even = checked(elapsed_ns[1::2]), checked(elapsed_ns[::2])
    drawn = [resampled(half, percent, inference.resamples, inference.seed) for half in (odd, even)]
    value = float(np.log(_of(odd, percent)) - np.log(_of(even, percent)))
    ends = _ends(np.log(drawn[0]) - np.log(drawn[1]), inference.confidence)
    return Estimate(math.exp(value), math.exp(ends[0]), math.exp(ends[1]), elapsed_ns.shape[1])


def fewest_for(percent: float, confidence: float) -> int:
    """Count the queries with which the largest time seen is an upper end of the percentile.

    Of fewer, all lie below it with more than half of the chance that the confidence leaves.
    """
    return math.ceil(math.log((1 - confidence) / 2) / math.log(percent / 100))


def _ratio(
    candidate_ns: Nanoseconds,
    control_ns: Nanoseconds,
    percent: float | None,
    *,
    confidence: float,
    resamples: int,
    seed: int,
) -> Estimate:
    arms = checked(candidate_ns), checked(control_ns)
    if arms[0].shape != arms[1].shape:
        raise EvidenceError(
            f"times of shape {arms[0].shape} and {arms[1].shape} are not of one race;"
            " race both arms over the same queries in the same processes"
        )
    queries = arms[0].shape[1]
    above, below = (np.log(_of(times, percent)) for times in arms)
    ends = -math.inf, math.inf
    if percent is None or queries >= fewest_for(percent, confidence):
        drawn = [np.log(resampled(times, percent, resamples, seed)) for times in arms]
        ends = _ends(drawn[0] - drawn[1], confidence)
    own = [np.log([_of(row[None], percent) for row in times]) for times in arms]
    return _joined(float(above - below), ends, own[0] - own[1], queries, confidence)


def _log_level(times: Floats, level: float) -> float:
    return math.log(float(np.quantile(times, level)))


def _of(times: Floats, percent: float | None) -> float:
    return float(times.mean() if percent is None else np.percentile(times, percent))


def resampled(times: Floats, percent: float | None, resamples: int, seed: int) -> Floats:
    """Percentile or mean over resampled queries, shape (resamples,); not to be written to.

    The latest results are cached, because gates, pages and checks use the same times.
    """
    return _resampled(times.tobytes(), times.shape[1], percent, resamples, seed)


@lru_cache(maxsize=KEPT)
def _resampled(
    raw: bytes, queries: int, percent: float | None, resamples: int, seed: int
) -> Floats:
    """Do so for times as bytes, which can be looked up.

    A resample is how often each query is in it, so the times are sorted once.
    """
    times = np.frombuffer(raw).reshape(-1, queries)
    order = np.argsort(times, axis=None, kind="stable")
    values, owner = times.ravel()[order], (order % queries).astype(np.intp)
    place = (times.size - 1) * (percent or 0) / 100
    found = np.empty(resamples)
    block = max(1, TIMES_AT_ONCE // times.size)
    for start in range(0, resamples, block):
        rows = min(start + block, resamples) - start
        drawn = picks(seed, Purpose.TIMES, first=start, rows=rows, units=queries)
        flat = drawn + queries * np.arange(rows, dtype=np.int64)[:, None]
        counts = np.bincount(flat.ravel(), minlength=rows * queries).reshape(rows, queries)
        counts = counts.astype(np.min_scalar_type(-queries))
        if percent is None:
            found[start : start + rows] = counts @ times.sum(axis=0) / times.size
            continue
        upto = np.cumsum(np.take(counts, owner, axis=1), axis=1, dtype=np.int32)
        lower = values[(upto > math.floor(place)).argmax(axis=1)]
        upper = values[(upto > math.ceil(place)).argmax(axis=1)]
        found[start : start + rows] = lower + (place - math.floor(place)) * (upper - lower)
    found.flags.writeable = False
    return found


def _ends(drawn: Floats, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def _joined(
    value: float, ends: tuple[float, float], own: Floats, queries: int, confidence: float
) -> Estimate:
    """Widen an interval of logarithms over queries by the error of the processes, and undo logs.

    ``own`` is the value of each process by itself, shape (processes,).
    """
    processes = len(own)
    reach = math.inf
    if processes > 1:
        student = -float(stdtrit(processes - 1, (1 - confidence) / 2))
        reach = student * float(own.std(ddof=1)) / math.sqrt(processes)
    low = value - math.hypot(value - ends[0], reach)
    high = value + math.hypot(ends[1] - value, reach)
    return Estimate(math.exp(value), math.exp(low), math.exp(high), queries)
