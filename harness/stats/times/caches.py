"""How much faster an answer is to a text that was seen before: the sign of a cache.

Ratios are geometric means over texts, so that a text with a thousandth of its time still counts
among slow ones, with Student's interval over texts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.core.scores import Estimate
from harness.stats.times.quantiles import Nanoseconds, checked


def repeat_ratio(
    first_ns: Nanoseconds, repeated_ns: Nanoseconds, *, confidence: float
) -> Estimate | None:
    """Time of a text repeated in a process over that of its first time there.

    Shapes (processes, queries) and (processes, repeated), whose texts are the first of the
    queries. None where fewer than two texts came again.

    Raises:
        EvidenceError: times are missing, or one is not above 0.
    """
    again = np.log(checked(repeated_ns))
    first = np.log(checked(first_ns[:, : again.shape[1]]))
    return _geometric((again - first).mean(axis=0), confidence)


def seen_ratio(
    first_ns: Nanoseconds, unseen_ns: Nanoseconds, *, confidence: float
) -> Estimate | None:
    """Time of a text that the replay ran over that of a variant that no process ran.

    Shapes (processes, queries) and (processes, unseen), whose texts are variants of the first of
    the queries; each process has variants of its own. Far below 1, the arm stored answers. None
    with fewer than two variants.

    Raises:
        EvidenceError: times are missing, or one is not above 0.
    """
    if not unseen_ns.size:
        return None
    unseen = np.log(checked(unseen_ns))
    first = np.log(checked(first_ns[:, : unseen.shape[1]]))
    return _geometric((first - unseen).mean(axis=0), confidence)


def shared_ratio(
    first_ns: Nanoseconds, turns: NDArray[np.int64], *, confidence: float
) -> Estimate | None:
    """Time of a text after another arm of the process ran it, over that of a text that none ran.

    Shapes (processes, queries). Far below 1, arms of one process share a cache. None where fewer
    than two texts came both ways.

    Raises:
        EvidenceError: times are missing, or one is not above 0.
    """
    times = np.log(checked(first_ns))
    after, before = (np.ma.array(times, mask=mask).mean(axis=0) for mask in (turns == 0, turns > 0))
    return _geometric(np.ma.compressed(after - before), confidence)


def _geometric(logs: NDArray[np.float64], confidence: float) -> Estimate | None:
    count = len(logs)
    if count <= 1:
        return None
    reach = -float(stdtrit(count - 1, (1 - confidence) / 2)) * float(logs.std(ddof=1))
    reach /= count**0.5
    mean = float(logs.mean())
    return Estimate(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), count)
