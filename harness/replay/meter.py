"""What the system took from a call: time that the process's threads were ready and did not run.

Linux counts for every thread how long it waited for a processor (``schedstat``, the second number;
Documentation/scheduler/sched-stats.rst of the kernel). All threads of the process are summed up,
for engines have workers. Where the system does not count it, as on macOS, all of the wall time in
which no processor worked for the process stands for it. An engine that sleeps or reads a disk is
then taken for one that was kept waiting, and never the reverse.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from time import process_time_ns
from typing import NamedTuple

TASKS = Path("/proc/self/task")
RUN_QUEUE, IDLE = "run-queue wait", "wall time without processor time"


class Reading(NamedTuple):
    """Counters of this process so far."""

    waits_ns: Mapping[str, int]
    """By thread; empty where the system does not count them."""
    cpu_ns: int
    preempted: int


class Taken(NamedTuple):
    """What one call cost, beside its time."""

    waited_ns: int
    """Ready and not running, all threads together; more than the call's time where several were."""
    cpu_ns: int
    """Of all threads."""
    preempted: int
    """How often a thread was taken off its processor."""


class Meter:
    """Reads the counters of this process; keeps the files of its threads open."""

    def __init__(self, tasks: Path = TASKS) -> None:
        self._tasks = tasks
        self._files: dict[str, int] = {}
        self.counts = RUN_QUEUE if self._waits() else IDLE
        """Which of the two ``waited_ns`` is."""

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def read(self) -> Reading:
        """Read all counters now."""
        waits = self._waits() if self.counts == RUN_QUEUE else {}
        preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        return Reading(waits, process_time_ns(), preempted)

    def taken(self, before: Reading, after: Reading, elapsed_ns: int) -> Taken:
        """Tell what was taken between two readings around a call of ``elapsed_ns``.

        What waited in a thread that ended in between is not known.
        """
        cpu_ns = after.cpu_ns - before.cpu_ns
        preempted = after.preempted - before.preempted
        if self.counts == IDLE:
            return Taken(max(0, elapsed_ns - cpu_ns), cpu_ns, preempted)
        waited = sum(ns - before.waits_ns.get(of, 0) for of, ns in after.waits_ns.items())
        return Taken(waited, cpu_ns, preempted)

    def _waits(self) -> dict[str, int]:
        """Wait of each thread that is there."""
        try:
            with os.scandir(self._tasks) as entries:
                threads = [entry.name for entry in entries]
        except OSError:
            return {}
        for gone in self._files.keys() - set(threads):
            os.close(self._files.pop(gone))
        found = {}
        for thread in threads:
            try:
                if thread not in self._files:
                    path = self._tasks / thread / "schedstat"
                    self._files[thread] = os.open(path, os.O_RDONLY)
                found[thread] = int(os.pread(self._files[thread], 96, 0).split()[1])
            except (OSError, IndexError, ValueError):  # it ended, or nothing is counted
                continue
        return found
