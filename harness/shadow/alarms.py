"""Alarms of live traffic: on what answers show, and on change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.core.run import Status
from harness.core.scores import Estimate
from harness.shadow.record import Observation, SideObservation
from harness.shadow.server import SettingsTable
from harness.stats.inference import MOST_CONFIDENCE
from harness.stats.sequential import BettingSequence

MOST = 1_000_000


class WatchSettings(SettingsTable):
    """How sure, and what counts as slow."""

    confidence: float = Field(gt=0.5, le=MOST_CONFIDENCE)
    """Of every confidence sequence, two-sided."""
    slow_ratio: float = Field(gt=1, le=MOST)
    """A pair is slow where the candidate took more than so many times the control's time."""
    seed: int = Field(ge=0)
    """Of the permutations."""
    resamples: int = Field(ge=99, le=MOST)
    """Permutations of each comparison of two windows."""


class EmptyBound(SettingsTable):
    """How much more often than the control the candidate may find nothing."""

    max_excess: float = Field(ge=0, lt=1)


class DuplicatesBound(SettingsTable):
    """In which share of an arm's answers a document may be shown twice."""

    max_share: float = Field(ge=0, lt=1)


class ChurnBound(DuplicatesBound):
    """How often an arm may answer a repeated query otherwise while its index stands still."""

    remember: int = Field(ge=1, le=MOST)
    """Queries of each arm whose last answer is kept; those asked longest ago are forgotten."""


class WindowBound(SettingsTable):
    """How far a later window of first scores may move from the first one."""

    window: int = Field(ge=20, le=MOST)
    """Answers with a hit in each window."""
    max_distance: float = Field(ge=0, le=1)
    """Largest gap between two distributions."""
    p_value: float = Field(gt=0, lt=0.5)


class Alarms(SettingsTable):
    """The tables ``[alarm.*]``."""

    empty: EmptyBound
    duplicates: DuplicatesBound
    churn: ChurnBound
    scores: WindowBound


class AlarmBounds(SettingsTable):
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
    note: str = ""


class Share:
    """The alarm on the mean of what attempts tell, which lies between ``least`` and 1."""

    def __init__(
        self,
        said: tuple[str, str, str],
        confidence: float,
        bound: float,
        value_of: Callable[[Observation], float | None],
        least: float = 0,
    ) -> None:
        self._said, self._bound, self._value_of = said, bound, value_of
        self._sequence = BettingSequence(confidence=confidence, least=least, most=1)
        self._estimate: Estimate | None = None
        self._since: int | None = None

    def see(self, observation: Observation) -> None:
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


def answer_of(observation: Observation, arm: str) -> SideObservation | None:
    """Return what an arm answered; None where it was not asked, failed or was too slow."""
    seen = observation.control if arm == "control" else observation.candidate
    return seen if seen is not None and seen.status is Status.ANSWERED else None


def empty(bound: EmptyBound, confidence: float) -> Share:
    """Watch that the candidate finds nothing no more often than the control; +1, 0 or -1 a pair."""

    def excess(seen: Observation) -> float | None:
        if not (seen.compared and seen.control and seen.candidate):
            return None
        return float((not seen.candidate.hits) - (not seen.control.hits))

    about = "finds nothing where the control finds something, less the reverse"
    return Share(("empty", "candidate", about), confidence, bound.max_excess, excess, least=-1)


def duplicates(arm: str, bound: DuplicatesBound, confidence: float) -> Share:
    """Watch that an arm shows a document only once in an answer."""

    def twice(observation: Observation) -> float | None:
        seen = answer_of(observation, arm)
        return float(seen.duplicates > 0) if seen else None

    said = "duplicates", arm, "answers that show a document twice"
    return Share(said, confidence, bound.max_share, twice)


def churn(arm: str, bound: ChurnBound, confidence: float) -> Share:
    """Watch that an arm answers a query as the last time, where its index has not moved."""
    last: OrderedDict[tuple[str, int], tuple[str, str]] = OrderedDict()

    def changed(observation: Observation) -> float | None:
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


SHUFFLED = 1 << 20
"""Values shuffled at once."""


class Windows:
    """The alarm on change: later windows of an arm's first native scores against the first one.

    Their scale and sign differ from engine to engine, so only their order counts.
    """

    def __init__(self, arm: str, bound: WindowBound, watch: WatchSettings) -> None:
        self._arm, self._bound, self._watch = arm, bound, watch
        self._first: tuple[float, ...] = ()
        self._filling: list[float] = []
        self._later = self._times = 0
        self._change: tuple[float, float] | None = None
        self._raised = False
        self._since: int | None = None

    def see(self, observation: Observation) -> None:
        """Take one attempt, and compare a window that it fills."""
        seen = answer_of(observation, self._arm)
        if seen is None or seen.top_raw is None:
            return
        self._filling.append(seen.top_raw)
        if len(self._filling) < self._bound.window:
            return
        full = tuple(self._filling)
        self._filling.clear()
        if not self._first:
            self._first = full
            return
        self._later += 1
        both, watch = (np.array(self._first), np.array(full)), self._watch
        self._change = gap(*both, seed=(watch.seed, self._later), resamples=watch.resamples)
        size, p_value = self._change
        self._raised = p_value <= self._bound.p_value and size > self._bound.max_distance
        self._times += self._raised
        if self._raised and self._since is None:
            self._since = observation.number

    def alarm(self) -> Alarm:
        """Return how things stand: what the latest window says."""
        state, estimate = AlarmState.RAISED if self._raised else AlarmState.QUIET, None
        if self._change is None:
            state, window = AlarmState.EARLY, self._bound.window
            lacking = (window if self._first else 2 * window) - len(self._filling)
            note = f"{lacking} more until two windows can be compared"
        else:
            size, p_value = self._change
            note = f"p {p_value:.4f}; raised by {self._times} of {self._later} windows"
            estimate = Estimate(size, size, size, self._later)
        about = "distance of the distribution of first native scores from the first window"
        bound = self._bound.max_distance
        return Alarm("scores", self._arm, state, about, estimate, bound, self._since, note)


Monitor = Share | Windows


def monitors(bounds: AlarmBounds) -> tuple[Monitor, ...]:
    """Make every alarm, those of an arm for the candidate first."""
    alarm, watch, arms = bounds.alarm, bounds.watch, tuple(reversed(ARMS))
    return (
        empty(alarm.empty, watch.confidence),
        *(duplicates(arm, alarm.duplicates, watch.confidence) for arm in arms),
        *(churn(arm, alarm.churn, watch.confidence) for arm in arms),
        *(Windows(arm, alarm.scores, watch) for arm in arms),
    )


def gap(
    first: NDArray[np.float64], later: NDArray[np.float64], *, seed: tuple[int, int], resamples: int
) -> tuple[float, float]:
    """Largest gap between the distributions of two samples (values,), and its p-value by shuffles.

    The statistic of Kolmogorov and Smirnov for two samples, between 0 and 1 (Conover, "Practical
    Nonparametric Statistics", 3rd ed., section 6.3), which looks at nothing but the order.
    """
    values = np.concatenate([first, later])
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    step = np.where(np.arange(len(values)) < len(first), 1 / len(first), -1 / len(later))
    found = float(_gaps(step[order][None], ends)[0])
    generator = np.random.default_rng(seed)
    at_once = max(1, SHUFFLED // len(values))
    as_large = 0
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        shuffled = generator.permuted(np.tile(step, (rows, 1)), axis=1)
        # equal sums in another order differ by rounding
        as_large += int((_gaps(shuffled, ends) >= found - 1e-12).sum())
    return found, (as_large + 1) / (resamples + 1)


def _gaps(steps: NDArray[np.float64], ends: NDArray[np.intp]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.abs(np.cumsum(steps, axis=1)[:, ends]).max(axis=1)
    return found
