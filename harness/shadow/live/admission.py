"""Whether a pair may be compared now, or is shed to spare the machine."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from threading import Lock
from time import monotonic_ns

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
        """Let a pair in, which must be ``done`` later, or give the reason why not."""
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
        """Let a pair out, for which the candidate took so long."""
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
