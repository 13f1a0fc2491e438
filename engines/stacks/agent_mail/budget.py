"""A time budget: an engine that is late is left to itself, and the next one is queried.

The budget is one query's, shared by the tiers of its chain. A tier may take half of what is
left, so that those below it have something. The last that has a share may take all of it. The
end of a chain has no share and is waited for, so a query is always served.

A call with a share runs on a thread of its own. One that is late cannot be stopped, only left:
until it ends, its part is refused at once. So of each part no more calls are left running than were
made at the moment when it began to hang. The threads are daemons; no process waits for them.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter_ns
from typing import NamedTuple, TypeVar, cast

from engines.contract.errors import EngineError

Result = TypeVar("Result")
NS_A_MS = 1_000_000
HALF = 2


class Deadline(NamedTuple):
    """When a tier's share ends, on the clock of ``perf_counter_ns``, and how long it was."""

    at_ns: int
    share_ms: float

    @property
    def left_s(self) -> float:
        """Seconds until then, negative afterwards."""
        return (self.at_ns - perf_counter_ns()) / 1e9

    @property
    def half(self) -> Deadline:
        """The deadline of work that may take half of what is left."""
        own = int(max(0.0, self.left_s) * 1e9) // HALF
        return Deadline(perf_counter_ns() + own, own / NS_A_MS)

    @property
    def passed(self) -> EngineError:
        """What is said of work that did not keep it."""
        return EngineError(f"past its budget of {self.share_ms:.0f} ms")

    def is_past(self) -> bool:
        """Tell whether it is over."""
        return self.left_s <= 0


CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
"""The deadline of the work that a thread does; None where no one would leave it."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one query may take, from now on."""

    ends_ns: int

    @classmethod
    def of(cls, budget_ms: float) -> Allowance | None:
        """Begin a query; a budget of 0 means no budget."""
        return cls(perf_counter_ns() + int(budget_ms * NS_A_MS)) if budget_ms else None

    def share(self, *, last: bool) -> Deadline:
        """Give the next tier half of what is left, or all of it to the last that has a share."""
        now = perf_counter_ns()
        left = max(0, self.ends_ns - now)
        own = left if last else left // HALF
        return Deadline(now + own, own / NS_A_MS)


@dataclass(slots=True)
class _Job:
    part: _Part
    work: Callable[[], object]
    until: Deadline
    done: Lock = field(default_factory=Lock)
    """Held while it runs."""
    left: bool = False
    value: object = None
    error: BaseException | None = None

    def run(self, worker: _Worker) -> None:
        CURRENT.set(self.until)
        try:
            self.value = self.work()
        except BaseException as exc:  # noqa: BLE001  whoever waits raises it
            self.error = exc
        with self.part.lock:
            self.part.late -= self.left
            self.part.idle.append(worker)
            self.done.release()


class _Worker:
    """A daemon thread that does one job after the other, until it is given none."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        Thread(target=self._work, name="within a budget", daemon=True).start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.run(self)
            del job


def _dismiss(idle: deque[_Worker]) -> None:
    for worker in idle:
        worker.jobs.put(None)


class _Part:
    """The threads of one part; they end when nobody holds it any longer."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.idle: deque[_Worker] = deque()
        self.late = 0
        """Calls that were left and still run."""
        weakref.finalize(self, _dismiss, self.idle)

    def call(self, work: Callable[[], object], until: Deadline) -> object:
        with self.lock:
            if self.late:
                raise EngineError("still busy with an earlier query")
            worker = self.idle.pop() if self.idle else None
        if until.is_past():
            raise EngineError("nothing is left of the query's budget")
        job = _Job(self, work, until)
        job.done.acquire()
        (worker or _Worker()).jobs.put(job)
        if not job.done.acquire(timeout=max(0.0, until.left_s)):
            with self.lock:
                if not job.done.acquire(blocking=False):
                    job.left = True
                    self.late += 1
                    raise until.passed
        if job.error is None:
            return job.value
        try:
            raise job.error
        finally:
            del job


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a service that may be late, by name; each is left apart from the others."""

    _known: dict[str, _Part] = field(default_factory=dict)

    def call(self, name: str, work: Callable[[], Result], until: Deadline | None) -> Result:
        """Do ``work`` within its share; without one it is done here, and costs no thread.

        Raises:
            EngineError: it is late, an earlier call of the same part still runs, or no
                time to begin. Whatever ``work`` raises is raised as it is.
        """
        if until is None:
            return work()
        part = self._known.get(name) or self._known.setdefault(name, _Part())
        return cast("Result", part.call(work, until))
