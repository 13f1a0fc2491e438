"""Parts that fail or are late: every failure is of four kinds, and every part may have a deadline.

Section 9.1 has the four kinds. A budget is shared among the tiers of a chain.
"""

import os
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread
from time import perf_counter_ns
from typing import NamedTuple, TypeVar

from harness.core.errors import ModelNotReady
from harness_engines.contract import EngineError, FeatureUnavailable, SearchError

Result = TypeVar("Result")
_PASSES = (SearchError, KeyboardInterrupt, SystemExit, GeneratorExit)


class _Known(AbstractContextManager["_Known"]):
    """Raises one of the four kinds, whatever was raised."""

    def __exit__(self, _: object, exc: BaseException | None, at: object) -> None:
        if exc is None or isinstance(exc, _PASSES):
            return
        if isinstance(exc, ModelNotReady):
            raise FeatureUnavailable(str(exc)) from exc
        raise EngineError(f"{type(exc).__name__}: {exc}") from exc


known = cache(_Known)
NS_A_MS = 1_000_000
HALF = 2


class Deadline(NamedTuple):
    """When a query's or a tier's share ends, by ``perf_counter_ns``, and how long it was."""

    at_ns: int
    share_ms: float

    @classmethod
    def of(cls, budget_ms: float) -> "Deadline | None":
        """Begin a query; a budget of 0 means no budget."""
        ends_ns = perf_counter_ns() + int(budget_ms * NS_A_MS)
        return cls(ends_ns, budget_ms) if budget_ms else None

    def share(self, *, last: bool = False) -> "Deadline":
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


Inbox = SimpleQueue[Callable[[], None]]
_IDLE: deque[Inbox] = deque()
"""Of daemons that wait for work: to start one for each query takes longer than many searches."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)


def _serve(inbox: Inbox) -> None:
    while True:
        inbox.get()()


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """Parts of a service that may be late, by name; each is left apart from the others."""

    _late: Counter[str] = field(default_factory=Counter)
    """Calls of a part that were left and still run."""
    _lock: Lock = field(default_factory=Lock)

    def call(self, name: str, work: Callable[[], Result], until: Deadline | None) -> Result:
        """Do ``work`` within its share, on a daemon; without one it is done here."""
        if until is None:
            return work()
        if self._late[name]:
            raise EngineError("still busy with an earlier query")
        if until.is_past():
            raise EngineError("nothing is left of the query's budget")
        done: Future[Result] = Future()
        left = Event()

        def run() -> None:
            CURRENT.set(until)
            end: Callable[[], None]
            try:
                end = partial(done.set_result, work())
            except BaseException as exc:  # noqa: BLE001  raised where it is waited for
                end = partial(done.set_exception, exc)
            with self._lock:
                self._late[name] -= left.is_set()
                _IDLE.append(inbox)
                end()

        try:
            inbox = _IDLE.pop()
        except IndexError:
            inbox = SimpleQueue()
            Thread(target=_serve, args=(inbox,), name="within a budget", daemon=True).start()
        inbox.put(run)
        try:
            return done.result(max(0.0, until.left_s))
        except TimeoutError:
            with self._lock:
                if not done.done():
                    left.set()
                    self._late[name] += 1
                    raise until.passed from None
            return done.result()


Stamp = tuple[int, int, int]


def stamp(path: Path | str) -> Stamp | None:
    """Return what changes when a file is replaced; None where it is gone."""
    try:
        found = os.stat(path)  # noqa: PTH116  at every query: half of Path.stat
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
