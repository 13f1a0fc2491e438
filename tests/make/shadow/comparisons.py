"""A live comparison with limits that tests can wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.shadow import log
from harness.shadow.comparison import Comparison
from harness.shadow.limits import MILLION, Limits, Recording, Sampler
from harness.shadow.log import Read
from harness.shadow.recorder import Slices
from harness.shadow.worker import Open, ProcessWorker, ThreadWorker, Worker

MS = 1_000_000
SECOND = 1_000 * MS
MEMORY = 256 << 20
LIMITS = Limits(
    in_flight=1,
    queue=1_000,
    budget_ns=60 * SECOND,
    late_ns=20 * SECOND,
    hang_ns=20 * SECOND,
    start_ns=30 * SECOND,
    memory_bytes=MEMORY,
    backoff_ns=1,
    backoff_most_ns=1,
    abandoned=2,
    close_ns=20 * SECOND,
)
RECORDING = Recording(
    batch=64,
    linger_ns=MS,
    backlog=100_000,
    rotate_bytes=1 << 20,
    sync_ns=60 * SECOND,
    persistence=0.9,
)
HASTY = replace(LIMITS, late_ns=200 * MS, hang_ns=300 * MS)
"""Limits for a candidate that hangs."""


def on_thread(opens: Open) -> Callable[[], Worker]:
    """Start the candidate on a thread."""
    return partial(ThreadWorker, opens, start_ns=LIMITS.start_ns)


def in_process(opens: Open, memory_bytes: int = MEMORY) -> Callable[[], Worker]:
    """Start the candidate in a process."""
    return partial(ProcessWorker, opens, start_ns=LIMITS.start_ns, memory_bytes=memory_bytes)


def comparison(
    folder: Path,
    start: Callable[[], Worker],
    *,
    rate: int = MILLION,
    slices: Slices | None = None,
    recording: Recording = RECORDING,
    limits: Limits = LIMITS,
) -> Comparison:
    """Compare every query, unless told otherwise."""
    return Comparison(
        folder,
        start,
        sampler=Sampler(rate=rate, seed=1),
        limits=limits,
        recording=recording,
        slices=slices,
    )


def drained(made: Comparison) -> Read:
    """Wait for all to be written, and read it."""
    assert made.drain(60)
    return log.read_logs(made.folder)
