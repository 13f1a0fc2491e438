"""A shadow log folded into what people look at, while it grows, and the alarms on it."""

import math
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.agreement import UNCOMPARED, Class, ComparisonTally, tally
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.core.store import StrictModel
from harness.shadow import record
from harness.shadow.divergences import BLOCKING, Suppressions, Trace
from harness.shadow.log import Between, Once
from harness.stats.inference import MOST_CONFIDENCE
from harness.stats.sequential import BettingSequence, Stakes, gains

MOST = 1_000_000


class WatchSettings(StrictModel):
    """How sure, and what counts as slow."""

    confidence: float = Field(gt=0.5, le=MOST_CONFIDENCE)
    """Of every confidence sequence, two-sided."""
    slow_ratio: float = Field(gt=1, le=MOST)
    """A pair is slow where the candidate took more than so many times the control's time."""


class EmptyBound(StrictModel):
    """How much more often than the control the candidate may find nothing."""

    max_excess: float = Field(ge=0, lt=1)


class DuplicatesBound(StrictModel):
    """In which share of an arm's answers a document may be shown twice."""

    max_share: float = Field(ge=0, lt=1)


class ChurnBound(DuplicatesBound):
    """How often an arm may answer a repeated query otherwise while its index stands still."""

    remember: int = Field(ge=1, le=MOST)
    """Queries of each arm whose last answer is kept; those asked longest ago are forgotten."""


class ScoresBound(DuplicatesBound):
    """In which share of an arm's answers the first score may lie where none lay at first."""

    window: int = Field(ge=20, le=MOST)
    """Answers with a hit at first, whose scores are the range."""


class Alarms(StrictModel):
    """The tables ``[alarm.*]``."""

    empty: EmptyBound
    duplicates: DuplicatesBound
    churn: ChurnBound
    scores: ScoresBound


class AlarmBounds(StrictModel):
    """The whole file."""

    watch: WatchSettings
    alarm: Alarms


ARMS = ("control", "candidate")


class AlarmState(StrEnum):
    """What an alarm says."""

    RAISED = "raised"
    """The bound is exceeded by more than chance explains."""
    QUIET = "quiet"
    """Seen often enough, and within the bound."""
    EARLY = "early"
    """There is not enough to say either."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm as it stands now."""

    name: str
    arm: str
    state: AlarmState
    about: str
    estimate: Estimate | None
    """What was measured; None where there was nothing yet."""
    bound: float
    since: int | None
    """Number of the attempt at which it was raised first; None where it never was."""


class Share:
    """The alarm on the mean of what attempts tell, which lies between ``least`` and 1."""

    def __init__(
        self,
        said: tuple[str, str, str],
        confidence: float,
        bound: float,
        value_of: Callable[[record.Observation], float | None],
        least: float = 0,
    ) -> None:
        self._said, self._bound, self._value_of = said, bound, value_of
        self._sequence = BettingSequence(confidence=confidence, least=least, most=1)
        self._estimate: Estimate | None = None
        self._since: int | None = None

    def see(self, observation: record.Observation) -> None:
        """Take one attempt."""
        value = self._value_of(observation)
        if value is None:
            return
        self._sequence.update(value)
        self._estimate = self._sequence.interval()
        if self._since is None and self._estimate.low > self._bound:
            self._since = observation.number

    def alarm(self) -> Alarm:
        """Return how things stand; an alarm that was raised stays so."""
        name, arm, about = self._said
        within = self._estimate is not None and self._estimate.high <= self._bound
        state = AlarmState.QUIET if within else AlarmState.EARLY
        state = state if self._since is None else AlarmState.RAISED
        return Alarm(name, arm, state, about, self._estimate, self._bound, self._since)


def answer_of(observation: record.Observation, arm: str) -> record.SideObservation | None:
    """Return what an arm answered; None where it was not asked, failed or was too slow."""
    seen = observation.control if arm == "control" else observation.candidate
    return seen if seen is not None and seen.status is Status.ANSWERED else None


def empty(bound: EmptyBound, confidence: float) -> Share:
    """Watch that the candidate finds nothing no more often than the control; +1, 0 or -1 a pair."""

    def excess(seen: record.Observation) -> float | None:
        if not (seen.compared and seen.control and seen.candidate):
            return None
        return float((not seen.candidate.hits) - (not seen.control.hits))

    about = "finds nothing where the control finds something, less the reverse"
    return Share(("empty", "candidate", about), confidence, bound.max_excess, excess, least=-1)


def duplicates(arm: str, bound: DuplicatesBound, confidence: float) -> Share:
    """Watch that an arm shows a document only once in an answer."""

    def twice(observation: record.Observation) -> float | None:
        seen = answer_of(observation, arm)
        return float(seen.duplicates > 0) if seen else None

    said = "duplicates", arm, "answers that show a document twice"
    return Share(said, confidence, bound.max_share, twice)


def churn(arm: str, bound: ChurnBound, confidence: float) -> Share:
    """Watch that an arm answers a query as the last time, where its index has not moved."""
    last: OrderedDict[tuple[str, int], tuple[str, str]] = OrderedDict()

    def changed(observation: record.Observation) -> float | None:
        if (seen := answer_of(observation, arm)) is None:
            return None
        key, now = (observation.query, observation.k), (seen.generation, seen.answer)
        before = last.pop(key, None)
        last[key] = now
        if len(last) > bound.remember:
            last.popitem(last=False)
        return float(before != now) if before is not None and before[0] == now[0] else None

    said = "churn", arm, "repeated queries that got another answer from the same index"
    return Share(said, confidence, bound.max_share, changed)


def scores(arm: str, bound: ScoresBound, confidence: float) -> Share:
    """Watch that an arm's first native scores stay in the range that they had at first."""
    first: list[float] = []

    def outside(observation: record.Observation) -> float | None:
        seen = answer_of(observation, arm)
        if seen is None or seen.top_raw is None:
            return None
        if len(first) < bound.window:
            first.append(seen.top_raw)
            return None
        return float(not min(first) <= seen.top_raw <= max(first))

    about = f"answers whose first native score lies beyond those of the first {bound.window:,}"
    return Share(("scores", arm, about), confidence, bound.max_share, outside)


WIDEST = 64.0
"""Largest ratio of the grid; its inverse is the smallest. Beyond it an end is unbounded."""
STEP = 1.01
"""From one ratio of the grid to the next; an end lies at most one step outside the exact one."""
HALF = np.array([0.5])
FAILED = frozenset({Status.FAILED, Status.TIMED_OUT})
ESTIMATES = ("overlap", "failures", "slow", "ratio", "noise")
TEXT = 300
"""Characters of a query that are kept."""


class Summary:
    """What a log says so far."""

    def __init__(self, bounds: AlarmBounds) -> None:
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
        self._traces: dict[tuple[str, Class], Trace] = {}
        self._texts: dict[str, str] = {}
        """What was typed, by the key of the query."""
        self._once = Once()
        self._sequences: dict[str, BettingSequence | MedianRatio] = {}
        self.beyond_noise = 0
        """Pairs that differ although the control, asked twice, agreed with itself."""
        self._times = {arm: array("q") for arm in ARMS}
        alarm, sure, arms = bounds.alarm, bounds.watch.confidence, tuple(reversed(ARMS))
        self._monitors = (
            empty(alarm.empty, sure),
            *(duplicates(arm, alarm.duplicates, sure) for arm in arms),
            *(churn(arm, alarm.churn, sure) for arm in arms),
            *(scores(arm, alarm.scores, sure) for arm in arms),
        )

    def read(self, records: Iterable[record.AnyRecord]) -> None:
        """Take records in the order of ``log.all_records``."""
        for one in records:
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
            self._learn("overlap", seen.jaccard)
        if seen.again is not None and seen.again not in UNCOMPARED:
            self._learn("noise", float(seen.again not in record.AGREED))
            self.beyond_noise += seen.outcome in record.DIVERGING and seen.again in record.AGREED
        for arm, side in zip(ARMS, (seen.control, seen.candidate), strict=True):
            if side is not None and side.status in FAILED:
                self.failures[arm] += 1
            elif side is not None and side.status is Status.ANSWERED:
                self.served_by[arm][side.served_by] += 1
        candidate = seen.candidate
        if candidate is not None and candidate.status is not Status.NOT_ASKED:
            self._learn("failures", float(candidate.status in FAILED))
        self._timed(seen)
        self._traced(seen)
        for monitor in self._monitors:
            monitor.see(seen)
        self.first = self.first or seen
        self.last = seen

    def tell(self, divergence: record.Divergence) -> None:
        """Take a pair that differs."""
        self._once.take(divergence)
        key = record.query_key(divergence.text, divergence.params)
        self._texts.setdefault(key, divergence.text[:TEXT])

    def traces(self, suppressions: Suppressions, today: date) -> tuple[Trace, ...]:
        """Return what diverges: first what blocks a step, each part the worst first."""
        told = (
            trace.told(self._texts.get(trace.query, ""), suppressions, today)
            for trace in self._traces.values()
        )
        return tuple(sorted(told, key=lambda trace: trace.severity))

    def note(self, degradation: record.Degradation) -> None:
        """Take a degradation."""
        self._once.take(degradation)
        if degradation.kind is record.ProblemKind.NOT_TAKEN:
            self.not_taken[degradation.cause] += degradation.times
        else:
            self.degradations[degradation.arm, degradation.kind] += 1

    def _traced(self, seen: record.Observation) -> None:
        if seen.outcome in record.DIVERGING:
            place = seen.query, seen.outcome
            fresh = Trace(*place, seen.slices, 0, None, seen.writer, seen.number)
            self._traces[place] = self._traces.get(place, fresh).again(seen)

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
        self._learn("slow", float(theirs > self.bounds.watch.slow_ratio * ours))
        self._learn("ratio", ours, theirs)

    @property
    def tally(self) -> ComparisonTally:
        """Request accounting; it adds up."""
        return tally(self.classes.elements())

    @property
    def missing(self) -> int:
        """Count the attempts that were numbered and are not in the log: a crash took them."""
        return self._once.missing

    def _learn(self, name: str, *value: float) -> None:
        if name not in self._sequences:
            sure = self.bounds.watch.confidence
            mean = BettingSequence(confidence=sure, least=0, most=1)
            self._sequences[name] = MedianRatio(confidence=sure) if name == "ratio" else mean
        self._sequences[name].update(*value)

    @property
    def estimates(self) -> dict[str, Estimate | None]:
        """Each estimate by its name, None before its first value; noise where it was measured."""
        found = {name: one.interval() for name, one in self._sequences.items()}
        return {name: found.get(name) for name in ESTIMATES if name in found or name != "noise"}

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
    traces: tuple[Trace, ...] = ()
    """What diverges: first what blocks a step, each part the worst first."""
    between: Between = field(default_factory=Between)

    @property
    def blocking(self) -> tuple[Trace, ...]:
        """Divergences that no one has accepted, or not until today; the worst first."""
        return tuple(trace for trace in self.traces if trace.register in BLOCKING)

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
