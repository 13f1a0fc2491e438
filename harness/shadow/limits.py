"""Limits of a live comparison: what it may cost, and which queries are compared."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from threading import Lock
from time import monotonic_ns

import numpy as np

from harness.core.errors import HarnessError


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the machine, and of a person's patience, the candidate gets."""

    in_flight: int
    """Candidates that run at once, each with its own worker."""
    queue: int
    """Pairs that may wait for a worker; beyond it they are shed."""
    budget_ns: int
    """Time that the candidate may take of each minute, over all workers."""
    late_ns: int
    """An answer after this long is a timeout: a person had left."""
    hang_ns: int
    """After this long the worker is given up and replaced; not below ``late_ns``."""
    start_ns: int
    """A candidate that is not open after this long did not start."""
    memory_bytes: int
    """Resident memory of a candidate's process, above which it is replaced. Threads have none."""
    backoff_ns: int
    """Wait before a lost worker is replaced; doubled at each loss until a query is answered."""
    backoff_most_ns: int
    abandoned: int
    """Hanging threads of the candidate that are borne before the comparison is switched off."""
    close_ns: int
    """How long closing may take; a lane that is busy for longer is left alone."""

    def __post_init__(self) -> None:
        _from(self, {"queue": 0, "abandoned": 0})
        if self.hang_ns < self.late_ns or self.backoff_most_ns < self.backoff_ns:
            raise HarnessError(
                f"hang_ns {self.hang_ns} must not lie below late_ns {self.late_ns}, nor"
                f" backoff_most_ns {self.backoff_most_ns} below backoff_ns {self.backoff_ns}"
            )


@dataclass(frozen=True, slots=True)
class Recording:
    """How pairs become records."""

    batch: int
    """Most pairs that are compared and written at once. It takes about 0.1 ms a pair of the
    interpreter's lock, which whoever serves waits for in the worst case."""
    linger_ns: int
    """How long a pair may wait for others to be compared with it, which makes each of them
    cheaper. It is also what a kill may take."""
    backlog: int
    """Pairs that may wait to be written; beyond it they are lost, and counted."""
    rotate_bytes: int
    """A stream starts a new file after one of this size."""
    sync_ns: int
    """How often the disk is waited for; 0 is after every batch."""
    persistence: float
    """The p of RBO, between 0 and 1."""

    def __post_init__(self) -> None:
        _from(self, {"linger_ns": 0, "sync_ns": 0, "persistence": 0})
        if not 0 < self.persistence < 1:
            raise HarnessError(f"persistence {self.persistence} must lie between 0 and 1")


def _from(settings: Limits | Recording, zero: dict[str, int]) -> None:
    for field in fields(settings):
        value, least = getattr(settings, field.name), zero.get(field.name, 1)
        if value < least:
            raise HarnessError(f"{field.name} is {value}; give at least {least}")


MILLION = 1_000_000


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
        self._phase, self.rate = phase, _checked(rate)
        """``rate`` is picks in a million queries, ``_phase`` what is left over before the first."""

    def takes(self, number: int) -> bool:
        """Return whether the query of this number, from 1, is picked."""
        before = self._phase + (number - 1) * self.rate
        return (before + self.rate) // MILLION > before // MILLION


def _checked(rate: int) -> int:
    if not 0 <= rate <= MILLION:
        raise HarnessError(
            f"a rate of {rate} in a million; give a whole number from 0 to {MILLION}"
        )
    return rate


MINUTE_NS = 60_000_000_000


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

    def __init__(
        self,
        *,
        in_flight: int,
        queue: int,
        budget_ns: int,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._most = in_flight + queue
        self._full = Reason.QUEUE if queue else Reason.IN_FLIGHT
        self._budget_ns = budget_ns
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
