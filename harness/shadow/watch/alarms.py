"""Alarms that need no judgement: what an answer shows of itself when something has broken.

An alarm on a share is raised when the low end of a confidence sequence passes its bound
(``harness.stats.sequential.betting``). It may be looked at after every query: where the share lies
within the bound, it is ever raised with probability at most (1 - confidence) / 2. Alarms that
compare windows are in ``harness.shadow.watch.change``.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from harness.core.run import Status
from harness.core.scores import Estimate
from harness.shadow.log.record import Observation, Seen
from harness.shadow.watch.bounds import ChurnBound, DuplicatesBound, EmptyBound
from harness.stats.sequential.betting import BettingSequence

ARMS = ("control", "candidate")


class State(StrEnum):
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
    """``control`` or ``candidate``; empty where it is about the traffic."""
    state: State
    about: str
    """What is watched, in words."""
    estimate: Estimate | None
    """What was measured; None where there was nothing yet."""
    bound: float
    since: int | None
    """Number of the attempt at which it was raised first; None where it never was."""
    note: str = ""


class Monitor(Protocol):
    """Looks at every attempt, in its order."""

    def see(self, observation: Observation) -> None:
        """Take one attempt."""
        ...

    def alarm(self) -> Alarm:
        """Say how things stand."""
        ...


class Share:
    """The alarm on the mean of values between ``least`` and 1."""

    def __init__(
        self, name: str, arm: str, about: str, *, confidence: float, least: float, bound: float
    ) -> None:
        self._said = (name, arm, about)
        self._sequence = BettingSequence(confidence=confidence, least=least, most=1)
        self._bound = bound
        self._estimate: Estimate | None = None
        self._since: int | None = None

    def take(self, value: float, number: int) -> None:
        """Take the value of attempt ``number``."""
        self._sequence.update(value)
        self._estimate = self._sequence.interval()
        if self._since is None and self._estimate.low > self._bound:
            self._since = number

    def alarm(self) -> Alarm:
        """Say how things stand; an alarm that was raised stays so."""
        name, arm, about = self._said
        within = self._estimate is not None and self._estimate.high <= self._bound
        state = State.QUIET if within else State.EARLY
        state = state if self._since is None else State.RAISED
        return Alarm(name, arm, state, about, self._estimate, self._bound, self._since)


class Empty:
    """The candidate finds nothing more often than the control, over compared pairs.

    Each pair counts +1, 0 or -1: what both find nothing for says nothing.
    """

    def __init__(self, bound: EmptyBound, confidence: float) -> None:
        about = "finds nothing where the control finds something, less the reverse"
        self._share = Share(
            "empty", "candidate", about, confidence=confidence, least=-1, bound=bound.max_excess
        )

    def see(self, observation: Observation) -> None:
        """Take one attempt."""
        control, candidate = observation.control, observation.candidate
        if observation.compared and control and candidate:
            value = (not candidate.hits) - (not control.hits)
            self._share.take(value, observation.number)

    def alarm(self) -> Alarm:
        """Say how things stand."""
        return self._share.alarm()


class Duplicates:
    """An arm shows a document twice in one answer."""

    def __init__(self, arm: str, bound: DuplicatesBound, confidence: float) -> None:
        self._arm = arm
        about = "answers that show a document twice"
        self._share = Share(
            "duplicates", arm, about, confidence=confidence, least=0, bound=bound.max_share
        )

    def see(self, observation: Observation) -> None:
        """Take one attempt."""
        if seen := answer_of(observation, self._arm):
            self._share.take(float(seen.duplicates > 0), observation.number)

    def alarm(self) -> Alarm:
        """Say how things stand."""
        return self._share.alarm()


class Churn:
    """An arm answers a query otherwise than the last time, though its index has not moved."""

    def __init__(self, arm: str, bound: ChurnBound, confidence: float) -> None:
        self._arm, self._remember = arm, bound.remember
        self._last: OrderedDict[tuple[str, int], tuple[str, str]] = OrderedDict()
        about = "repeated queries that got another answer from the same index"
        self._share = Share(
            "churn", arm, about, confidence=confidence, least=0, bound=bound.max_share
        )

    def see(self, observation: Observation) -> None:
        """Take one attempt; queries asked for another number of hits are other queries."""
        seen = answer_of(observation, self._arm)
        if seen is None:
            return
        key = observation.query, observation.k
        before = self._last.pop(key, None)
        self._last[key] = seen.generation, seen.answer
        if before is not None and before[0] == seen.generation:
            self._share.take(float(before[1] != seen.answer), observation.number)
        if len(self._last) > self._remember:
            self._last.popitem(last=False)

    def alarm(self) -> Alarm:
        """Say how things stand."""
        return self._share.alarm()


def answer_of(observation: Observation, arm: str) -> Seen | None:
    """Give what an arm answered; None where it was not asked, failed or was too slow."""
    seen = observation.control if arm == "control" else observation.candidate
    return seen if seen is not None and seen.status is Status.ANSWERED else None
