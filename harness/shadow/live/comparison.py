"""The live comparison: what was served goes in, records come out, and nothing comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from time import monotonic, sleep, time_ns
from types import TracebackType
from typing import Self

from harness.shadow.live.admission import LoadShedder, Reason
from harness.shadow.live.compare import Slices
from harness.shadow.live.lane import Lane
from harness.shadow.live.limits import Limits, Recording
from harness.shadow.live.pair import Attempt, Pair, Served, Trouble, comparable
from harness.shadow.live.recorder import Recorder
from harness.shadow.live.sampler import Sampler
from harness.shadow.live.side import told
from harness.shadow.live.worker import Worker
from harness.shadow.log.log import OFF, Log
from harness.shadow.log.record import Kind, client_key

OFF_BY_FILE = "there is a file 'off' in the folder of the log"
PAUSE_S = 0.005
CAUSES = 16
"""Causes of queries that were not taken, at once; a client may make up any number of them."""
OTHER_CAUSES = "other causes"


@dataclass(frozen=True, slots=True)
class Counts:
    """What the comparison did since it was made."""

    served: int
    attempted: int
    """Queries that the sampler picked."""
    shed: Mapping[Reason, int]
    lost: int
    """Attempts that could not be written down."""
    faults: int
    """Queries at which the comparison's own code failed; they are not attempts."""


class Comparison:
    """A candidate beside the serving engine, and the log of both.

    ``offer`` is all that the serving path calls. It numbers the query, asks the sampler and the
    gate, and puts it into a queue; everything else happens on threads of the comparison, or in the
    candidate's process. Make it after the last fork of a server that forks, one for each
    process, each with its own folder.

    Raises:
        EvidenceError: another process writes a log to the folder.
        BadFile: the folder cannot be written to.
    """

    def __init__(
        self,
        folder: Path,
        start: Callable[[], Worker],
        *,
        sampler: Sampler,
        limits: Limits,
        recording: Recording,
        slices: Slices | None = None,
    ) -> None:
        log = Log(folder, rotate_bytes=recording.rotate_bytes, sync_ns=recording.sync_ns)
        self.folder = folder
        self._off_file = folder / OFF
        self._sampler = sampler
        self._gate = LoadShedder(
            in_flight=limits.in_flight, queue=limits.queue, budget_ns=limits.budget_ns
        )
        self._salt = log.salt
        self._numbering = Lock()
        self._first = log.number, log.served
        self._number, self._served = self._first
        self._faulting = Lock()
        self._faults = 0
        self._not_taken: Counter[str] = Counter()
        """By cause, since they were last written down."""
        self._close_s = limits.close_ns / 1e9
        self._left = 0
        self._abandoned = limits.abandoned
        self._queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self._recorder = Recorder(log, recording, slices=slices, tick=self._tick)
        self._lanes = [
            Lane(
                self._queue,
                start=start,
                limits=limits,
                done=self._done,
                tell=self._recorder.put,
                leaves=self._leaves,
            )
            for _ in range(limits.in_flight)
        ]
        self._look_at_file()
        for thread in (self._recorder, *self._lanes):
            thread.start()

    def offer(self, served: Served, generation: Callable[[], str]) -> None:
        """Take a query that was served; never raises, never waits for the candidate.

        ``generation`` reads the generation of the control's index again, on another thread.
        """
        try:
            self._offer(served, generation)
        except Exception as exc:  # noqa: BLE001  nothing of this may reach who is served
            self.fault(exc)

    def fault(self, exc: Exception) -> None:
        """Count a query that could not be taken; each is written down with its cause, soon."""
        with self._faulting:
            self._faults += 1
            cause = told(exc)
            known = cause in self._not_taken or len(self._not_taken) < CAUSES
            self._not_taken[cause if known else OTHER_CAUSES] += 1
            if self._faults.bit_count() == 1:
                self._tell_not_taken()

    def _tell_not_taken(self) -> None:
        found, self._not_taken = self._not_taken, Counter()
        for cause, times in found.items():
            self._recorder.put(Trouble(0, time_ns(), "shadow", Kind.NOT_TAKEN, cause, times))

    def _offer(self, served: Served, generation: Callable[[], str]) -> None:
        kept = comparable(served)
        with self._numbering:
            self._served += 1
            order = self._served
            if not self._sampler.takes(order):
                return
            self._number += 1
            number = self._number
        kept = kept._replace(client=client_key(kept.client, self._salt))
        attempt = Attempt(number, order, time_ns(), kept, generation)
        reason = self._gate.admit()
        if reason is None:
            self._queue.put(attempt)
        else:
            self._recorder.put(Pair(attempt, None, served.generation, shed=reason))

    def _done(self, pair: Pair) -> None:
        self._recorder.put(pair)
        self._gate.done((pair.candidate and pair.candidate.elapsed_ns) or 0)

    def _leaves(self) -> None:
        """Bear a thread that hangs, or switch off where there are too many."""
        self._left += 1
        if self._left > self._abandoned:
            self.switch_off(f"{self._left} threads of the candidate hang")

    def _tick(self) -> None:
        with self._faulting:
            self._tell_not_taken()
        self._look_at_file()

    def _look_at_file(self) -> None:
        there = self._off_file.exists()
        if there and not self._gate.off:
            self.switch_off(OFF_BY_FILE)
        elif not there and self._gate.off == OFF_BY_FILE:
            self._gate.switch_on()

    def switch_off(self, cause: str) -> None:
        """Shed every pair from now on; those that wait are still compared."""
        self._gate.switch_off(cause)
        self._recorder.put(Trouble(0, time_ns(), "shadow", Kind.DISABLED, cause))

    @property
    def off(self) -> str:
        """Why it is switched off; empty where it is on."""
        return self._gate.off

    def switch_on(self) -> None:
        """Compare again."""
        self._gate.switch_on()

    @property
    def counts(self) -> Counts:
        """What was done since it was made."""
        return Counts(
            served=self._served - self._first[1],
            attempted=self._number - self._first[0],
            shed=self._gate.shed,
            lost=self._recorder.lost,
            faults=self._faults,
        )

    @property
    def waiting(self) -> int:
        """Pairs that wait for the candidate, or are with it."""
        return self._gate.inside

    def drain(self, timeout_s: float) -> bool:
        """Wait until every attempt is written down; False where that took too long."""
        until = monotonic() + timeout_s
        with self._faulting:
            self._tell_not_taken()
        while self._gate.inside or not self._recorder.idle:
            if monotonic() > until:
                return False
            sleep(PAUSE_S)
        return True

    def close(self) -> None:
        """Ask the candidate no more, write down what is there, and let go of the folder.

        An attempt that still waits is written down as skipped.
        """
        until = monotonic() + self._close_s
        self._gate.switch_off("closed")
        for lane in self._lanes:
            lane.stop()
            self._queue.put(None)
        for lane in self._lanes:
            lane.join(max(until - monotonic(), 0))
        with self._faulting:
            self._tell_not_taken()
        self._recorder.close(max(until - monotonic(), PAUSE_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
