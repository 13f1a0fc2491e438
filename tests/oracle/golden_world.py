"""A process in which time, chance and the machine stand still, so that every output comes again.

Time passes only where an engine of the thorns sleeps, and a little at each look at the clock. A
process that is started anew is a thread of this one: its time is this time. No name of the product
stands here, so nothing here moves when the product does.
"""

import contextlib
import datetime as dt
import hashlib
import io
import itertools
import multiprocessing.context
import os
import resource
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Self
from zoneinfo import ZoneInfo  # noqa: F401

import numpy as np  # noqa: F401  what reads the clock in C is imported before it stands still
import pandas as pd  # noqa: F401
import psutil
import pyarrow.parquet as pq  # noqa: F401
import pydantic  # noqa: F401

NOW = dt.datetime(2026, 11, 20, 12, 0, 0, tzinfo=dt.UTC)
LOOK_NS, UNEVEN_NS, SHORTEST_NS = 100, 41, 50_000
"""What a look at the clock takes at least, how uneven it is, and the shortest sleep."""
RESIDENT = 64 << 20
STATUS = "/proc/self/status"
TASKS = "/proc/self/task"
UNSTEADY = ("/proc/pressure", "/sys/fs/cgroup")


class _Passing:
    """Time since the process began."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000

    def look(self) -> int:
        self.ns += LOOK_NS + self.ns * 7 % UNEVEN_NS
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += max(int(seconds * 1e9), SHORTEST_NS)

    def worked(self) -> int:
        """Sixteen parts of time, one of which was another program's."""
        return self.ns - self.ns // 16


_REAL = dt.datetime


class _Kind(type):
    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, _REAL)


class _Fixed(dt.datetime, metaclass=_Kind):
    """A date whose today does not move."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOW.timestamp(), tz)


class _FixedDay(dt.date):
    @classmethod
    def today(cls) -> Self:
        return cls(NOW.year, NOW.month, NOW.day)


class _Process(threading.Thread):
    """A process that is a thread: nothing is imported anew, and it shares the clock."""

    def __init__(
        self, target: Callable[..., object], args: Iterable[object] = (), **_: object
    ) -> None:
        super().__init__(daemon=True)
        self.target, self.args = target, tuple(map(_inherited, args))
        self.exitcode: int | None = None

    def run(self) -> None:
        try:
            self.target(*self.args)
            self.exitcode = 0
        except BaseException:  # noqa: BLE001  as a process that dies
            self.exitcode = 1
        for one in self.args:
            if isinstance(one, Connection):
                one.close()

    def terminate(self) -> None:
        """Leave it alone; it ends with this process."""


def _inherited(one: object) -> object:
    """Copy an end of a pipe: the parent closes its own."""
    return Connection(os.dup(one.fileno()), readable=False) if isinstance(one, Connection) else one


def stand_still() -> None:
    """Fix what differs from run to run; call it before the product is imported."""
    passing, drawn, born = _Passing(), itertools.count(), itertools.count(1)
    scandir, read_text = os.scandir, Path.read_text
    idle = psutil.cpu_times()
    idle = idle._replace(**dict.fromkeys(idle._fields, 0.0))

    def scanned(path: str | Path = ".") -> object:
        if str(path) == TASKS:
            raise FileNotFoundError(TASKS)
        return scandir(path)

    def text(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if str(path).startswith(UNSTEADY):
            raise FileNotFoundError(path)
        if str(path) == STATUS:
            return f"VmHWM: {RESIDENT >> 10} kB"
        return read_text(path, encoding, errors)

    def token(size: int = 32) -> str:
        return hashlib.sha256(str(next(drawn)).encode()).hexdigest()[: 2 * size]

    for owner, name, still in (
        (time, "perf_counter_ns", passing.look),
        (time, "monotonic_ns", passing.look),
        (time, "perf_counter", lambda: passing.look() / 1e9),
        (time, "monotonic", lambda: 1.0),
        (time, "thread_time_ns", passing.worked),
        (time, "process_time_ns", passing.worked),
        (time, "process_time", lambda: passing.worked() / 1e9),
        (time, "sleep", passing.sleep),
        (time, "time", NOW.timestamp),
        (time, "time_ns", lambda: int(NOW.timestamp()) * 1_000_000_000),
        (dt, "datetime", _Fixed),
        (dt, "date", _FixedDay),
        (secrets, "token_hex", token),
        (multiprocessing.context.SpawnContext, "Process", _Process),
        (psutil, "cpu_percent", lambda *_: 1.0),
        (psutil, "cpu_times", lambda: idle),
        (psutil.Process, "create_time", lambda _: float(next(born))),
        (psutil.Process, "memory_info", lambda _: SimpleNamespace(rss=RESIDENT)),
        (resource, "getrusage", lambda _: SimpleNamespace(ru_nivcsw=0, ru_maxrss=RESIDENT)),
        (os, "scandir", scanned),
        (Path, "read_text", text),
    ):
        setattr(owner, name, still)


def commanded(words: Iterable[str]) -> tuple[int, str, str]:
    """Run one command line in this process; return its exit code, output and messages."""
    from harness.cli import main

    said, wrong = io.StringIO(), io.StringIO()
    sys.argv = ["harness", *words]
    code = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 2
    return code, said.getvalue(), wrong.getvalue()
