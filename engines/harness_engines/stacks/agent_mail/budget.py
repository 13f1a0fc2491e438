"""A time budget of engines that are late, and the kill switch in a file."""

from __future__ import annotations

import logging
import os
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter_ns
from typing import NamedTuple, TypeVar, cast

from harness.core.errors import BadFile, UnknownName
from harness.core.reading import Malformed, text_of
from harness_engines.contract import EngineError
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch

Result = TypeVar("Result")
NS_A_MS = 1_000_000
HALF = 2


class Deadline(NamedTuple):
    """When a query's or a tier's share ends, by ``perf_counter_ns``, and how long it was."""

    at_ns: int
    share_ms: float

    @classmethod
    def of(cls, budget_ms: float) -> Deadline | None:
        """Begin a query; a budget of 0 means no budget."""
        ends_ns = perf_counter_ns() + int(budget_ms * NS_A_MS)
        return cls(ends_ns, budget_ms) if budget_ms else None

    def share(self, *, last: bool = False) -> Deadline:
        """Return the next tier half of what is left, or all of it to the last that has a share."""
        now = perf_counter_ns()
        left = max(0, self.at_ns - now)
        own = left if last else left // HALF
        return Deadline(now + own, own / NS_A_MS)

    @property
    def left_s(self) -> float:
        """Seconds until then, negative afterwards."""
        return (self.at_ns - perf_counter_ns()) / 1e9

    @property
    def passed(self) -> EngineError:
        """What is said of work that did not keep it."""
        return EngineError(f"past its budget of {self.share_ms:.0f} ms")

    def is_past(self) -> bool:
        """Return whether it is over."""
        return self.left_s <= 0


CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
"""The deadline of the work that a thread does; None where no one would leave it."""


@dataclass(slots=True)
class _Job:
    part: _Part
    work: Callable[[], object]
    until: Deadline
    done: Future[object] = field(default_factory=Future)
    left: bool = False


Jobs = SimpleQueue[_Job | None]


def _work(jobs: Jobs) -> None:
    """Do one job after the other, until there is none; whoever waits raises what one raised."""
    while (job := jobs.get()) is not None:
        CURRENT.set(job.until)
        value, error = None, None
        try:
            value = job.work()
        except BaseException as exc:  # noqa: BLE001
            error = exc
        with job.part.lock:
            job.part.late -= job.left
            job.part.idle.append(jobs)
            if error is None:
                job.done.set_result(value)
            else:
                job.done.set_exception(error)
        del job, value, error


def _dismiss(idle: deque[Jobs]) -> None:
    for jobs in idle:
        jobs.put(None)


class _Part:
    """The daemon threads of one part; they end when nobody holds it any longer."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.idle: deque[Jobs] = deque()
        self.late = 0
        """Calls that were left and still run."""
        weakref.finalize(self, _dismiss, self.idle)

    def call(self, work: Callable[[], object], until: Deadline) -> object:
        with self.lock:
            if self.late:
                raise EngineError("still busy with an earlier query")
            jobs = self.idle.pop() if self.idle else None
        if until.is_past():
            raise EngineError("nothing is left of the query's budget")
        if jobs is None:
            jobs = SimpleQueue()
            Thread(target=_work, args=(jobs,), name="within a budget", daemon=True).start()
        job = _Job(self, work, until)
        jobs.put(job)
        try:
            return job.done.result(max(0.0, until.left_s))
        except TimeoutError:
            with self.lock:
                if not job.done.done():
                    job.left = True
                    self.late += 1
                    raise until.passed from None
            return job.done.result()
        finally:
            del job


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """Parts of a service that may be late, by name; each is left apart from the others."""

    _known: dict[str, _Part] = field(default_factory=dict)

    def call(self, name: str, work: Callable[[], Result], until: Deadline | None) -> Result:
        """Do ``work`` within its share; without one it is done here, and costs no thread."""
        if until is None:
            return work()
        part = self._known.get(name) or self._known.setdefault(name, _Part())
        return cast("Result", part.call(work, until))


SWITCH_LOG = logging.getLogger("engines.mail.switch")
NAME = "SEARCH_ENGINE"
HINT = f"Write one line {NAME}=fts5, tantivy, shadow, hybrid or hybrid_rerank"


def value_in(path: Path) -> str:
    """Read the value of ``SEARCH_ENGINE`` in a file of ``NAME=value`` lines; ``#`` is a comment."""
    try:
        lines = text_of(path).splitlines()
    except (OSError, Malformed) as exc:
        raise BadFile(path, f"cannot be read ({exc})", HINT) from exc
    said = [line.split("=", 1) for line in lines if line.strip() and not line.startswith("#")]
    values = [pair[-1].strip().strip("\"'") for pair in said if pair[0].strip() == NAME]
    if len(values) != 1:
        raise BadFile(path, f"sets {NAME} {len(values)} times", HINT)
    return values[0]


Stamp = tuple[int, int, int]


def stamp(path: Path | str) -> Stamp | None:
    """Return what changes when a file is replaced; None where it is gone."""
    try:
        found = os.stat(path)  # noqa: PTH116  at every query: half of Path.stat
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass(slots=True)
class SwitchFile:
    """The file, and what it said last; one that is spoilt later changes nothing but the log."""

    path: Path
    _seen: Stamp | None = field(init=False)
    _value: KillSwitch | None = field(init=False)

    def __post_init__(self) -> None:
        """Read the file."""
        self._seen = stamp(self.path)
        self._value = KillSwitch.read(value_in(self.path))

    def read(self) -> KillSwitch | None:
        """Return what the file says now, or said when it could last be read."""
        seen = stamp(self.path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._value = KillSwitch.read(value_in(self.path))
                SWITCH_LOG.warning("%s is now %s", NAME, self._value or "unset")
            except (BadFile, UnknownName) as exc:
                SWITCH_LOG.error("%s stays %s: %s", NAME, self._value or "unset", exc)
        return self._value
