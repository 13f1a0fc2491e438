"""A time budget of engines that are late, and the kill switch in a file."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter_ns
from typing import NamedTuple, TypeVar

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
                end()

        Thread(target=run, name="within a budget", daemon=True).start()
        try:
            return done.result(max(0.0, until.left_s))
        except TimeoutError:
            with self._lock:
                if not done.done():
                    left.set()
                    self._late[name] += 1
                    raise until.passed from None
            return done.result()


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
