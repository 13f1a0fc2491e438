"""Percentiles of times, with intervals, in processes."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtrit

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate

Floats = NDArray[np.float64]
Nanoseconds = NDArray[np.int64]


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
    return Estimate(float(np.percentile(times, percent)), low, high, times.size)


def order_ends(values: Floats, percent: float, tail: float) -> tuple[float, float]:
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


def checked(elapsed_ns: Nanoseconds | Floats) -> Floats:
    """Return the times as floats, which cannot wrap when they are summed."""
    if not elapsed_ns.size:
        raise EvidenceError("no times were given; race at least one query")
    if elapsed_ns.min() <= 0:
        raise EvidenceError(
            f"a time of {elapsed_ns.min()} ns is not above 0: a counter wrapped or was never set"
        )
    return elapsed_ns.astype(np.float64)


def text_ratio(
    above_ns: Nanoseconds, below_ns: Nanoseconds, *, confidence: float
) -> Estimate | None:
    """Time of texts over that of others, text by text: of their first times, or of variants.

    Both have shape (processes, texts); the texts of the shorter one go with the first ones of the
    other. Repeated over first times far below 1 are a cache in the process. First times far below
    those of variants that no process ran are stored answers. None with fewer than two texts.
    """
    count = min(above_ns.shape[1], below_ns.shape[1])
    if not count:
        return None
    above, below = (np.log(checked(one[:, :count])) for one in (above_ns, below_ns))
    return _geometric((above - below).mean(axis=0), confidence)


def shared_ratio(
    first_ns: Nanoseconds, turns: NDArray[np.int64], *, confidence: float
) -> Estimate | None:
    """Time of a text after another arm of the process ran it, over that of a text that none ran.

    Shapes (processes, queries). Far below 1, arms of one process share a cache. None where fewer
    than two texts came both ways.
    """
    times = np.log(checked(first_ns))
    after, before = (np.ma.array(times, mask=mask).mean(axis=0) for mask in (turns == 0, turns > 0))
    return _geometric(np.ma.compressed(after - before), confidence)


def _geometric(logs: Floats, confidence: float) -> Estimate | None:
    count = len(logs)
    if count <= 1:
        return None
    reach = -float(stdtrit(count - 1, (1 - confidence) / 2)) * float(logs.std(ddof=1))
    reach /= count**0.5
    mean = float(logs.mean())
    return Estimate(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), count)


def percentile(elapsed_ns: Nanoseconds | Floats, percent: float, *, confidence: float) -> Estimate:
    """Percentile over processes and queries, nanoseconds.

    An end is missing (0, infinity) with too few queries (``fewest_for``), and both with one
    process.
    """
    values = checked(elapsed_ns)
    ends = order_ends(values, percent, (1 - confidence) / 2)
    own = np.percentile(values, percent, axis=1)
    value = float(np.percentile(values, percent))
    return _widened(value, ends, own, values.shape[1], confidence)


def slowdown(
    candidate_ns: Nanoseconds, control_ns: Nanoseconds, percent: float, *, confidence: float
) -> Estimate:
    """Percentile of the candidate's time over the control's for the same query and process."""
    above, below = _checked(candidate_ns, control_ns)
    return percentile(above / below, percent, confidence=confidence)


def ratio(
    candidate_ns: Nanoseconds, control_ns: Nanoseconds, percent: float, *, confidence: float
) -> Estimate:
    """Candidate's percentile over control's.

    The arms share the level: each has its interval over queries at half of it, and the ends are
    divided. So the interval is valid however the two arms' times depend on each other.
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
    """
    above, below = _checked(candidate_ns, control_ns)
    value = float(above.mean() / below.mean())
    own = above.mean(axis=1) / below.mean(axis=1)
    return _widened(value, (value, value), own, above.shape[1], confidence)


def aa_ratio(elapsed_ns: Nanoseconds, percent: float) -> Estimate:
    """Divide an arm's percentile by that of its fastest process: 1 if all processes are alike.

    Each process opened the index anew, so this is the A/A control. ``high`` is the slowest process.
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


def _widened(
    value: float, ends: tuple[float, float], own: Floats, queries: int, confidence: float
) -> Estimate:
    """Widen an interval over queries by the error of the processes, on the scale of logarithms."""
    processes, reach = len(own), math.inf
    if processes > 1:
        student = -float(stdtrit(processes - 1, (1 - confidence) / 2))
        reach = student * float(np.log(own).std(ddof=1)) / math.sqrt(processes)
    down, up = (
        math.hypot(math.log(one / value), reach) if 0 < one < math.inf else math.inf for one in ends
    )
    return Estimate(value, value * math.exp(-down), value * math.exp(up), queries)
