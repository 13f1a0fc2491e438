"""A shadow log folded into what people look at, while it grows."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field
from datetime import date

import numpy as np
from numpy.typing import NDArray

from harness.agreement import UNCOMPARED, Class, ComparisonTally, tally
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.shadow import record
from harness.shadow.alarms import ARMS, Alarm, AlarmBounds, AlarmState, monitors
from harness.shadow.divergences import BLOCKING, Diverging, Suppressions, SuppressionStatus, Trace
from harness.shadow.log import Between, Follower, Once
from harness.stats.sequential import BettingSequence, Stakes, gains

WIDEST = 64.0
"""Largest ratio of the grid; its inverse is the smallest. Beyond it an end is unbounded."""
STEP = 1.01
"""From one ratio of the grid to the next; an end lies at most one step outside the exact one."""
HALF = np.array([0.5])
FAILED = frozenset({Status.FAILED, Status.TIMED_OUT})
POINTS = 400
"""Points kept of one sequence; when there are more, every second one is dropped."""


@dataclass(frozen=True, slots=True)
class TrackPoint:
    """How sure a mean was after one attempt."""

    at: int
    """When it was, nanoseconds since 1970 in UTC."""
    estimate: Estimate


class Track:
    """A confidence sequence, and what it said at evenly spread counts of values."""

    def __init__(self, sequence: BettingSequence | MedianRatio) -> None:
        self._sequence = sequence
        self._every, self._count, self._at = 1, 0, 0
        self._points: list[TrackPoint] = []

    def take(self, at: int, *value: float) -> None:
        """Take one value, which came at ``at``, nanoseconds since 1970 in UTC."""
        self._sequence.update(*value)
        self._count += 1
        self._at = at
        if self._count % self._every:
            return
        self._points.append(TrackPoint(at, self._sequence.interval()))
        if len(self._points) > POINTS:
            del self._points[::2]
            self._every *= 2

    @property
    def now(self) -> Estimate | None:
        """What it says now; None before the first value."""
        return self._sequence.interval() if self._count else None

    @property
    def points(self) -> tuple[TrackPoint, ...]:
        """Its past, and how it stands now as the last point."""
        kept, now = self._points, self.now
        if now and (not kept or kept[-1].estimate.n != now.n):
            kept = [*kept, TrackPoint(self._at, now)]
        return tuple(kept)


class Summary:
    """What a log says so far."""

    def __init__(self, bounds: AlarmBounds) -> None:
        confidence = bounds.watch.confidence
        self.bounds = bounds
        self.classes: Counter[Class] = Counter()
        self.by_slice: dict[str, Counter[Class]] = {}
        self.reasons: Counter[tuple[Class, str]] = Counter()
        self.degradations: Counter[tuple[str, record.ProblemKind]] = Counter()
        self.not_taken: Counter[str] = Counter()
        """Queries that were served and are no attempts, by cause."""
        self.untimed = 0
        self.failures = dict.fromkeys(ARMS, 0)
        self.served_by: dict[str, Counter[str]] = {arm: Counter() for arm in ARMS}
        """Answers of each arm by the fingerprint of who gave them."""
        self.first: record.Observation | None = None
        self.last: record.Observation | None = None
        self.diverging = Diverging()
        self._once = Once()
        self._overlap, self._failed, self._slow, self._noise = (
            Track(BettingSequence(confidence=confidence, least=0, most=1)) for _ in range(4)
        )
        self._ratio = Track(MedianRatio(confidence=confidence))
        self.beyond_noise = 0
        """Pairs that differ although the control, asked twice, agreed with itself."""
        self._times = {arm: array("q") for arm in ARMS}
        self._monitors = monitors(bounds)

    def read(self, follower: Follower) -> None:
        """Take what is new in logs."""
        for one in follower.new():
            match one:
                case record.Observation():
                    self.see(one)
                case record.Divergence():
                    self.tell(one)
                case record.Degradation():
                    self.note(one)

    def see(self, seen: record.Observation) -> None:
        """Take one attempt."""
        self._once.take(seen)
        self.classes[seen.outcome] += 1
        for name in seen.slices or ("(no slice)",):
            self.by_slice.setdefault(name, Counter())[seen.outcome] += 1
        if not seen.compared:
            self.reasons[seen.outcome, seen.reason] += 1
        if seen.jaccard is not None:
            self._overlap.take(seen.at, seen.jaccard)
        if seen.again is not None and seen.again not in UNCOMPARED:
            self._noise.take(seen.at, float(seen.again not in record.AGREED))
            self.beyond_noise += seen.outcome in record.DIVERGING and seen.again in record.AGREED
        for arm, side in zip(ARMS, (seen.control, seen.candidate), strict=True):
            if side is not None and side.status in FAILED:
                self.failures[arm] += 1
            elif side is not None and side.status is Status.ANSWERED:
                self.served_by[arm][side.served_by] += 1
        candidate = seen.candidate
        if candidate is not None and candidate.status is not Status.NOT_ASKED:
            self._failed.take(seen.at, float(candidate.status in FAILED))
        self._timed(seen)
        self.diverging.see(seen)
        for monitor in self._monitors:
            monitor.see(seen)
        self.first = self.first or seen
        self.last = seen

    def tell(self, divergence: record.Divergence) -> None:
        """Take a pair that differs."""
        self._once.number(divergence)
        self.diverging.tell(divergence)

    def note(self, degradation: record.Degradation) -> None:
        """Take a degradation."""
        self._once.number(degradation)
        if degradation.kind is record.ProblemKind.NOT_TAKEN:
            self.not_taken[degradation.cause] += degradation.times
        else:
            self.degradations[degradation.arm, degradation.kind] += 1

    def _timed(self, seen: record.Observation) -> None:
        """Take the times of both arms, each of its own clock."""
        control, candidate = seen.control, seen.candidate
        if control is None or candidate is None or control.status is not Status.ANSWERED:
            return
        if candidate.status not in {Status.ANSWERED, Status.TIMED_OUT}:
            return
        if control.elapsed_ns is None or candidate.elapsed_ns is None:
            self.untimed += 1
            return
        ours, theirs = max(1, control.elapsed_ns), max(1, candidate.elapsed_ns)
        self._times["control"].append(ours)
        self._times["candidate"].append(theirs)
        self._slow.take(seen.at, float(theirs > self.bounds.watch.slow_ratio * ours))
        self._ratio.take(seen.at, ours, theirs)

    @property
    def tally(self) -> ComparisonTally:
        """Request accounting; it adds up."""
        return tally(self.classes.elements())

    @property
    def missing(self) -> int:
        """Count the attempts that were numbered and are not in the log: a crash took them."""
        return self._once.missing

    @property
    def tracks(self) -> dict[str, Track]:
        """Each estimate by its name, in the order of reading."""
        tracks: dict[str, Track] = {
            "overlap": self._overlap,
            "failures": self._failed,
            "slow": self._slow,
            "ratio": self._ratio,
        }
        return {**tracks, "noise": self._noise} if self._noise.now else tracks

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Every alarm as it stands."""
        return tuple(monitor.alarm() for monitor in self._monitors)

    def elapsed_ns(self, arm: str) -> NDArray[np.int64]:
        """Return the times of the pairs in which both arms were timed, shape (pairs,)."""
        return np.array(self._times[arm], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of a log, checked against the suppression list."""

    summary: Summary
    suppressions: Suppressions
    standing: tuple[tuple[Trace, SuppressionStatus], ...] = ()
    """What diverges: first what blocks a step, each part the worst first."""
    between: Between = field(default_factory=Between)

    @classmethod
    def of(
        cls,
        summary: Summary,
        suppressions: Suppressions,
        *,
        today: date,
        between: Between | None = None,
    ) -> LogState:
        """Look up each divergence in the suppression list on the day ``today`` (UTC)."""
        said = [(one, one.standing(suppressions, today)) for one in summary.diverging.traces()]
        said.sort(key=lambda pair: pair[1] not in BLOCKING)
        return cls(summary, suppressions, tuple(said), between or Between())

    @property
    def blocking(self) -> tuple[Trace, ...]:
        """Divergences that no one has accepted, or not until today; the worst first."""
        return tuple(trace for trace, standing in self.standing if standing in BLOCKING)

    @property
    def raised(self) -> tuple[Alarm, ...]:
        """Alarms that are raised now."""
        return tuple(one for one in self.summary.alarms if one.state is AlarmState.RAISED)

    @property
    def early(self) -> bool:
        """Whether nothing was compared yet, or an alarm has too little to go by."""
        states = {one.state for one in self.summary.alarms}
        return AlarmState.EARLY in states or not self.summary.tally.compared


class MedianRatio:
    """A confidence sequence of the median of candidate / control, over pairs of times."""

    def __init__(self, *, confidence: float) -> None:
        reach = math.ceil(math.log(WIDEST) / math.log(STEP))
        self._grid: NDArray[np.float64] = STEP ** np.arange(-reach, reach + 1, dtype=np.float64)
        self._stakes = Stakes(confidence, streams=len(self._grid))
        self._above = np.zeros(len(self._grid))
        self._below = np.zeros(len(self._grid))
        self._first, self._last = -1, len(self._grid)
        self._seen: Counter[int] = Counter()
        self._count = 0

    def update(self, control_ns: float, candidate_ns: float) -> None:
        """Take one pair of times above 0, nanoseconds."""
        ratio = candidate_ns / control_ns
        within = (ratio <= self._grid).astype(np.float64)
        more, less = gains(self._stakes.next(), within, HALF)
        self._below += more
        self._above += less
        self._stakes.learn(within)
        ruin = math.log(self._stakes.wealth)
        above, below = self._above >= ruin, self._below >= ruin
        lows = int(np.argmin(above)) if not above.all() else len(above)
        highs = int(np.argmin(below[::-1])) if not below.all() else len(below)
        self._first = max(self._first, lows - 1)
        self._last = min(self._last, len(below) - highs)
        self._seen[int(np.searchsorted(self._grid, ratio))] += 1
        self._count += 1

    def interval(self) -> Estimate:
        """Median of what came, at least once, to a step of the grid, and its bounds."""
        low = float(self._grid[self._first]) if self._first >= 0 else 0.0
        high = float(self._grid[self._last]) if self._last < len(self._grid) else math.inf
        steps = sorted(self._seen)
        passed = np.cumsum([self._seen[step] for step in steps])
        middle = steps[int(np.searchsorted(2 * passed, self._count))]
        value = float(self._grid[min(middle, len(self._grid) - 1)])
        return Estimate(value, low, high, self._count)
