"""One trial in numbers: what came of a schedule, how late the generator was, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.run import Status
from harness.core.scores import Estimate
from harness.replay.load.histogram import Histogram
from harness.replay.load.loop import NS_PER_S, Plan, Served
from harness.replay.load.worker_pool import Part, answered, unserved
from harness.stats.times.series import series_interval

PERCENTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
LAG_PERCENT = 99.0


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What is kept of one trial."""

    arrivals: int
    """Intended; of a closed loop, asked."""
    seconds: float
    """From the start to the last answer."""
    ends: Mapping[Status, int]
    """How many ended how; ``NOT_ASKED`` are those that the trial was given up before."""
    strays: int
    response: Mapping[str, Histogram]
    """Nanoseconds from the intended start, of what was answered, by query class."""
    service: Mapping[str, Histogram]
    """Nanoseconds from the real start, by query class."""
    cold: Mapping[str, Histogram]
    """Nanoseconds of the first queries right after opening, in a closed loop, by class."""
    percentiles: Mapping[str, Estimate]
    """Of the response times in the order of arrival; where there are too few, none."""
    lag_ns: int
    """p99 of how late the generator itself was."""
    within: Mapping[int, float]
    """Share of all arrivals that were answered within each budget, nanoseconds."""
    cpu_ns: int
    """Of all processes."""
    opened_bytes: int
    """Resident memory that opening and serving added, of the largest process."""
    resident_bytes: int
    peak_bytes: int
    """Of the largest process, the interpreter included."""

    @property
    def rate(self) -> float:
        """Answers a second that came."""
        return self.ends[Status.ANSWERED] / self.seconds if self.seconds else 0.0

    @property
    def overall(self) -> Histogram:
        """Response times of all classes."""
        return Histogram.merged(self.response.values())

    def lags(self, max_lag: float) -> bool:
        """Tell whether the generator was later than ``max_lag`` of the p99 that it measured.

        Its times are then its own and not the engine's. A trial without an answer has no p99, so
        its generator cannot be compared with one.
        """
        p99_ns = self.overall.percentile(LAG_PERCENT)
        return p99_ns is not None and self.lag_ns > max_lag * p99_ns

    def keeps(self, budget_ns: int, percent: float) -> bool:
        """Tell whether ``percent`` of all arrivals were answered within the budget.

        What failed, came too late or was never asked is not within any budget, so an engine gains
        nothing by refusing quickly.
        """
        return self.within[budget_ns] >= percent / 100


def summed(
    plan: Plan,
    classes: Sequence[str],
    parts: tuple[Part, ...],
    *,
    budgets_ns: Sequence[int],
    confidence: float,
) -> Trial:
    """Put what the workers bring back into numbers; ``classes`` are those of the picks."""
    everything = sorted(one for part in parts for one in part.served)
    done = answered(parts)
    lost = unserved(plan, parts)
    response = np.array([one.response_ns for one in done], dtype=np.int64)
    began = min(part.start_ns for part in parts)
    ends = Counter(one.status for one in everything)
    ends[Status.NOT_ASKED] += lost
    total = len(everything) + lost
    intervals = {
        name: series_interval(response, percent, confidence=confidence)
        for name, percent in PERCENTS.items()
        if len(response)
    }
    lag = [one.lag_ns for one in everything]
    return Trial(
        arrivals=total,
        seconds=(max((one.ended_ns for one in everything), default=began) - began) / NS_PER_S,
        ends={status: ends[status] for status in Status},
        strays=sum(one.stray for one in everything),
        response=_by_class(done, classes, lambda one: one.response_ns),
        service=_by_class(done, classes, lambda one: one.service_ns),
        cold=_cold(plan, classes, parts),
        percentiles={name: found for name, found in intervals.items() if found is not None},
        lag_ns=int(np.percentile(lag, LAG_PERCENT)) if lag else 0,
        within={budget: _share(response, budget, total) for budget in budgets_ns},
        cpu_ns=sum(part.cpu_ns for part in parts),
        opened_bytes=max(part.resident_bytes - part.before_bytes for part in parts),
        resident_bytes=max(part.resident_bytes for part in parts),
        peak_bytes=max(part.peak_bytes for part in parts),
    )


def _share(response: NDArray[np.int64], budget_ns: int, total: int) -> float:
    return float((response <= budget_ns).sum()) / total if total else 0.0


def _by_class(
    done: Sequence[Served], classes: Sequence[str], time_ns: Callable[[Served], int]
) -> Mapping[str, Histogram]:
    times: dict[str, list[int]] = {}
    for one in done:
        times.setdefault(classes[one.arrival % len(classes)], []).append(time_ns(one))
    return {name: Histogram.of(found) for name, found in sorted(times.items())}


def _cold(plan: Plan, classes: Sequence[str], parts: Sequence[Part]) -> Mapping[str, Histogram]:
    of_row = dict(zip(plan.picks, classes, strict=True))
    times: dict[str, list[int]] = {}
    for row, elapsed_ns in (each for part in parts for each in part.cold):
        times.setdefault(of_row[row], []).append(elapsed_ns)
    return {name: Histogram.of(found) for name, found in sorted(times.items())}
