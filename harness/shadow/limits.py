"""Limits of a live comparison: what it may cost, and which queries are compared."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from threading import Lock
from time import monotonic_ns
from typing import Annotated, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

MILLION = 1_000_000
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
MINUTE_NS = 60 * NS_PER_S
MOST_MS = 86_400_000
"""A day; of times in seconds it bounds slips of the hand alone."""
Many = Annotated[int, Field(ge=0, le=MILLION)]
Some = Annotated[int, Field(ge=1, le=MILLION)]
Time = Annotated[float, Field(gt=0, le=MOST_MS)]
AnyTime = Annotated[float, Field(ge=0, le=MOST_MS)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Sampling(_Table):
    """Which queries are compared."""

    rate: Many
    """So many of a million."""
    seed: int = Field(ge=0)


class Limits(_Table):
    """How much of the machine, and of a person's patience, the candidate gets."""

    in_flight: Some
    """Candidates that run at once, each in its own process."""
    queue: Many
    """Pairs that may wait for a process; beyond it they are shed."""
    budget_s: Time
    """Time that the candidate may take of each minute, over all processes."""
    late_ms: Time
    """An answer after this long is a timeout: a person had left."""
    hang_ms: Time
    """After this long the process is given up and replaced; not below ``late_ms``."""
    start_s: Time
    """A candidate that is not open after this long did not start."""
    memory_mib: Some
    """Resident memory of a candidate's process, above which it is replaced."""
    backoff_ms: Time
    """Wait before a lost process is replaced; doubled at each loss until a query is answered."""
    backoff_most_ms: Time
    close_s: Time
    """How long closing may take; a lane that is busy for longer is left alone."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.hang_ms < self.late_ms or self.backoff_most_ms < self.backoff_ms:
            raise ValueError(
                f"hang_ms {self.hang_ms} must not lie below late_ms {self.late_ms}, nor"
                f" backoff_most_ms {self.backoff_most_ms} below backoff_ms {self.backoff_ms}"
            )
        return self

    @property
    def room(self) -> int:
        """Pairs that may wait or run at once."""
        return self.in_flight + self.queue


class Recording(_Table):
    """How pairs become records."""

    batch: Some
    """Most pairs that are compared and written at once. It takes about 0.1 ms a pair of the
    interpreter's lock, which whoever serves waits for in the worst case."""
    linger_ms: AnyTime
    """How long a pair may wait for others to be compared with it, which makes each of them
    cheaper. It is also what a kill may take."""
    backlog: Some
    """Pairs that may wait to be written; beyond it they are lost, and counted."""
    rotate_mib: float = Field(gt=0, le=MILLION)
    """A stream starts a new file after one of this size."""
    sync_ms: AnyTime
    """How often the disk is waited for; 0 is after every batch."""
    persistence: float = Field(gt=0, lt=1)
    """The p of RBO."""


class Settings(_Table):
    """What a live comparison may cost, and how it is written down."""

    sampling: Sampling
    limits: Limits
    recording: Recording


class Sampler:
    """Picks a share of the queries by their number, by error diffusion in whole millionths.

    Of any n queries in a row n times the rate are picked, one more or one less at most. So
    without bursts (the first picks of each ten thousand, as a remainder below a bound would
    give). That is the tightest that there is, and it leaves nothing to chance but the phase, which
    ``seed`` draws. Traffic that repeats itself with just the sampler's period is seen at one place
    of it. A rate such as 97,003 millionths, and not 100,000, has no period to meet.
    """

    def __init__(self, *, rate: int, seed: int) -> None:
        phase = int(np.random.default_rng(seed).integers(MILLION))
        self._phase, self.rate = phase, rate
        """``rate`` is picks in a million queries, ``_phase`` what is left over before the first."""

    def takes(self, number: int) -> bool:
        """Return whether the query of this number, from 1, is picked."""
        before = self._phase + (number - 1) * self.rate
        return (before + self.rate) // MILLION > before // MILLION


class Reason(StrEnum):
    """Why a pair was shed."""

    OFF = "off"
    """Somebody, or the comparison itself, switched it off."""
    IN_FLIGHT = "in_flight"
    """All workers are busy, and nothing may wait."""
    QUEUE = "queue"
    """The queue is full."""
    BUDGET = "budget"
    """The candidate has had its time of this minute."""


class LoadShedder:
    """Admits at most ``in_flight + queue`` pairs at once, and a candidate's time a minute.

    The time of a pair counts when the pair is done, so a minute may be overdrawn by the pairs in
    flight. Many threads may call it.
    """

    def __init__(self, limits: Limits, clock: Callable[[], int] = monotonic_ns) -> None:
        self._most = limits.room
        self._full = Reason.QUEUE if limits.queue else Reason.IN_FLIGHT
        self._budget_ns = limits.budget_s * NS_PER_S
        self._clock = clock
        self._lock = Lock()
        self._inside = 0
        self._spent: deque[tuple[int, int]] = deque()
        self._spent_ns = 0
        self._shed: Counter[Reason] = Counter()
        self._off = ""

    def admit(self) -> Reason | None:
        """Admit a pair, which must be ``done`` later, or return the reason why not."""
        with self._lock:
            reason = self._reason()
            if reason is None:
                self._inside += 1
            else:
                self._shed[reason] += 1
            return reason

    def _reason(self) -> Reason | None:
        if self._off:
            return Reason.OFF
        if self._inside >= self._most:
            return self._full
        self._forget()
        return Reason.BUDGET if self._spent_ns >= self._budget_ns else None

    def _forget(self) -> None:
        """Drop what was spent more than a minute ago."""
        since = self._clock() - MINUTE_NS
        while self._spent and self._spent[0][0] <= since:
            self._spent_ns -= self._spent.popleft()[1]

    def done(self, candidate_ns: int) -> None:
        """Release a pair, for which the candidate took so long."""
        with self._lock:
            self._inside -= 1
            self._spent.append((self._clock(), candidate_ns))
            self._spent_ns += candidate_ns

    def switch_off(self, cause: str) -> None:
        """Shed all that comes from now on; ``cause`` is for people and must not be empty."""
        self._off = cause

    def switch_on(self) -> None:
        """Admit again."""
        self._off = ""

    @property
    def off(self) -> str:
        """Why it is switched off; empty where it is on."""
        return self._off

    @property
    def inside(self) -> int:
        """Pairs that wait or run."""
        return self._inside

    @property
    def shed(self) -> Mapping[Reason, int]:
        """How many were shed, by reason."""
        with self._lock:
            return dict(self._shed)
