"""Percentiles of times that were taken in several processes, and the ratios of two arms.

Times are nanoseconds, int64, shape (processes, queries): every process timed the same queries once.
A percentile is over all calls. Two things were drawn, and each has its own error.

Queries: how many of them lie above the true percentile is binomial, whatever the distribution, so
an end is an order statistic (Conover, "Practical Nonparametric Statistics", 3rd ed., section 3.2).
It is the interval of Clopper and Pearson for the share of queries above a limit, read the other way
round. A query counts once however many processes timed it: an end leaves as many calls beyond it as
the processes have of that many whole queries. Queries that are slow in every process make that
exact; where some calls of a query are slow, the share varies less than a binomial.

Processes: they lie elsewhere in memory, hash and link otherwise (Kalibera and Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013). They are few, so their error is Student's, of the
percentile of each process by itself. It widens the ends on the scale of logarithms, as the square
root of the sum of squares (MOVER: Zou and Donner, Statistics in Medicine 27, 2008).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.times.quantiles import Nanoseconds, checked, order_ends

Floats = NDArray[np.float64]


def percentile(elapsed_ns: Nanoseconds, percent: float, *, confidence: float) -> Estimate:
    """Percentile over processes and queries, nanoseconds.

    An end is missing (0, infinity) with too few queries (``fewest_for``), and both with one
    process.

    Raises:
        EvidenceError: times are missing, or one is not above 0.
    """
    return _estimate(checked(elapsed_ns), percent, confidence)


def slowdown(
    candidate_ns: Nanoseconds, control_ns: Nanoseconds, percent: float, *, confidence: float
) -> Estimate:
    """Percentile of the candidate's time over the control's for the same query and process.

    Raises:
        EvidenceError: the shapes differ, times are missing, or one is not above 0.
    """
    above, below = _checked(candidate_ns, control_ns)
    return _estimate(above / below, percent, confidence)


def ratio(
    candidate_ns: Nanoseconds, control_ns: Nanoseconds, percent: float, *, confidence: float
) -> Estimate:
    """Candidate's percentile over control's.

    The arms share the level: each has its interval over queries at half of it, and the ends are
    divided. So the interval is valid however the two arms' times depend on each other.

    Raises:
        EvidenceError: the shapes differ, times are missing, or one is not above 0.
    """
    above, below = _checked(candidate_ns, control_ns)
    tail = (1 - confidence) / 4
    over, under = (order_ends(times, percent, tail) for times in (above, below))
    own = np.percentile(above, percent, axis=1) / np.percentile(below, percent, axis=1)
    value = float(np.percentile(above, percent) / np.percentile(below, percent))
    ends = over[0] / under[1], over[1] / under[0] if under[0] else math.inf
    return _widened(value, ends, own, above.shape[1], confidence)


def mean_ratio(
    candidate_ns: Nanoseconds, control_ns: Nanoseconds, *, confidence: float
) -> Estimate:
    """Candidate's mean over control's, with its interval over processes for these queries alone.

    It tells nothing of other queries: no sample bounds the mean of times that have no limit.

    Raises:
        EvidenceError: the shapes differ, times are missing, or one is not above 0.
    """
    above, below = _checked(candidate_ns, control_ns)
    value = float(above.mean() / below.mean())
    own = above.mean(axis=1) / below.mean(axis=1)
    return _widened(value, (value, value), own, above.shape[1], confidence)


def aa_ratio(elapsed_ns: Nanoseconds, percent: float) -> Estimate:
    """Divide an arm's percentile by that of its fastest process: 1 if all processes are alike.

    Each process opened the index anew, so this is the A/A control. ``high`` is the slowest process.

    Raises:
        EvidenceError: there are fewer than two processes, or a time is not above 0.
    """
    if len(elapsed_ns) <= 1:
        raise EvidenceError("one process has no other to be compared with; race in two or more")
    times = checked(elapsed_ns)
    own = np.percentile(times, percent, axis=1)
    fastest = float(own.min())
    value = float(np.percentile(times, percent))
    return Estimate(value / fastest, 1.0, float(own.max()) / fastest, times.shape[1])


def fewest_for(percent: float, confidence: float, *, arms: int = 1) -> int:
    """Count the queries with which the largest time seen is an upper end of the percentile.

    Of fewer, all lie below it with more than the chance that the confidence leaves, which
    ``arms`` share.
    """
    return math.ceil(math.log((1 - confidence) / 2 / arms) / math.log(percent / 100))


def _checked(candidate_ns: Nanoseconds, control_ns: Nanoseconds) -> tuple[Floats, Floats]:
    if candidate_ns.shape != control_ns.shape:
        raise EvidenceError(
            f"times of shape {candidate_ns.shape} and {control_ns.shape} are not of one race;"
            " race both arms over the same queries in the same processes"
        )
    return checked(candidate_ns), checked(control_ns)


def _estimate(values: Floats, percent: float, confidence: float) -> Estimate:
    ends = order_ends(values, percent, (1 - confidence) / 2)
    own = np.percentile(values, percent, axis=1)
    value = float(np.percentile(values, percent))
    return _widened(value, ends, own, values.shape[1], confidence)


def _widened(
    value: float, ends: tuple[float, float], own: Floats, queries: int, confidence: float
) -> Estimate:
    """Widen an interval over queries by the error of the processes, on the scale of logarithms.

    ``own`` is the value of each process by itself, shape (processes,).
    """
    processes, reach = len(own), math.inf
    if processes > 1:
        student = -float(stdtrit(processes - 1, (1 - confidence) / 2))
        reach = student * float(np.log(own).std(ddof=1)) / math.sqrt(processes)
    down, up = (
        math.hypot(math.log(one / value), reach) if 0 < one < math.inf else math.inf for one in ends
    )
    return Estimate(value, value * math.exp(-down), value * math.exp(up), queries)
