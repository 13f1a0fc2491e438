"""The live comparison: its settings; what was served goes in, records come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from time import monotonic, perf_counter_ns, sleep, time_ns
from types import TracebackType
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from harness.core.engine import Answer, Manifest, Searcher, TakesParams
from harness.core.records import Scalar
from harness.shadow.limits import MILLION, Limits, LoadShedder, Reason, Recording, Sampler
from harness.shadow.log import OFF, Between, Log, write
from harness.shadow.pair import Attempt, Generation, Pair, Served, Trouble, comparable, told
from harness.shadow.record import Kind, client_key
from harness.shadow.recorder import Recorder, Slices
from harness.shadow.worker import Lane, Open, ProcessWorker, ThreadWorker, Worker

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


class Shadowed:
    """Answers with the control's very answer, and offers each query to a comparison.

    What the control raises is raised. What the comparison does, and what becomes of it, is not
    seen by who asks; it costs them one put into a queue. Whatever else the control can do
    it can do here.
    """

    def __init__(self, control: Searcher, comparison: Comparison) -> None:
        self._control, self._comparison = control, comparison
        self._takes_params = control if isinstance(control, TakesParams) else None
        self._generation = _Careful(Generation(control))

    @property
    def manifest(self) -> Manifest:
        """What the control has open."""
        return self._control.manifest

    def __getattr__(self, name: str) -> object:
        return getattr(self._control, name)

    def search(self, text: str, k: int, *, client: str = "") -> Answer:
        """Answer as the control does; ``client`` is who sent the query, and no engine sees it."""
        return self._served(text, k, {}, lambda: self._control.search(text, k), client)

    def search_with(
        self, text: str, k: int, params: Mapping[str, Scalar], *, client: str = ""
    ) -> Answer:
        """Answer as the control does; one that takes no params is queried with the text alone."""
        control = self._takes_params
        if control is None:
            return self._served(text, k, params, lambda: self._control.search(text, k), client)
        ask = partial(control.search_with, text, k, params)
        return self._served(text, k, params, ask, client)

    def _served(
        self,
        text: str,
        k: int,
        params: Mapping[str, Scalar],
        ask: Callable[[], Answer],
        client: str,
    ) -> Answer:
        generation = self._generation()
        start = perf_counter_ns()
        try:
            answer = ask()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as exc:  # a panic of a Rust engine is no Exception
            elapsed_ns = perf_counter_ns() - start
            self._offer(Served(text, k, params, None, _said(exc), elapsed_ns, generation, client))
            raise
        elapsed_ns = perf_counter_ns() - start
        self._offer(Served(text, k, params, answer, "", elapsed_ns, generation, client))
        return answer

    def _offer(self, served: Served) -> None:
        self._comparison.offer(served, self._generation)


class _Careful:
    """A generation that is the empty text where it cannot be read."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def __call__(self) -> str:
        try:
            return self._generation()
        except Exception:  # noqa: BLE001  must not reach who is served
            return ""


def _said(exc: BaseException) -> str:
    """Name an exception, also one that cannot be told."""
    try:
        return told(exc)
    except Exception:  # noqa: BLE001  must not reach who is served
        return type(exc).__name__


NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
MOST_MS = 86_400_000
"""A day; of times in seconds it bounds slips of the hand alone."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Sampling(_Table):
    """Which queries are compared."""

    rate: int = Field(ge=0, le=MILLION)
    """So many of a million."""
    seed: int = Field(ge=0)


class LimitsTable(_Table):
    """``harness.shadow.limits.Limits``."""

    in_flight: int = Field(ge=1, le=MILLION)
    queue: int = Field(ge=0, le=MILLION)
    budget_s: float = Field(gt=0, le=MOST_MS)
    late_ms: float = Field(gt=0, le=MOST_MS)
    hang_ms: float = Field(gt=0, le=MOST_MS)
    start_s: float = Field(gt=0, le=MOST_MS)
    memory_mib: int = Field(ge=1, le=MILLION)
    backoff_ms: float = Field(gt=0, le=MOST_MS)
    backoff_most_ms: float = Field(gt=0, le=MOST_MS)
    abandoned: int = Field(ge=0, le=MILLION)
    close_s: float = Field(gt=0, le=MOST_MS)


class RecordingTable(_Table):
    """``harness.shadow.limits.Recording``."""

    batch: int = Field(ge=1, le=MILLION)
    linger_ms: float = Field(ge=0, le=MOST_MS)
    backlog: int = Field(ge=1, le=MILLION)
    rotate_mib: int = Field(ge=1, le=MILLION)
    sync_ms: float = Field(ge=0, le=MOST_MS)
    persistence: float = Field(gt=0, lt=1)


class Settings(_Table):
    """The whole file."""

    sampling: Sampling
    limits: LimitsTable
    recording: RecordingTable

    def bounds(self) -> Limits:
        """Return the limits in nanoseconds and bytes.

        Raises:
            HarnessError: two of them contradict each other.
        """
        given = self.limits
        return Limits(
            in_flight=given.in_flight,
            queue=given.queue,
            budget_ns=round(given.budget_s * NS_PER_S),
            late_ns=round(given.late_ms * NS_PER_MS),
            hang_ns=round(given.hang_ms * NS_PER_MS),
            start_ns=round(given.start_s * NS_PER_S),
            memory_bytes=given.memory_mib << 20,
            backoff_ns=round(given.backoff_ms * NS_PER_MS),
            backoff_most_ns=round(given.backoff_most_ms * NS_PER_MS),
            abandoned=given.abandoned,
            close_ns=round(given.close_s * NS_PER_S),
        )

    def writing(self) -> Recording:
        """Return how it is written down in nanoseconds and bytes."""
        given = self.recording
        return Recording(
            batch=given.batch,
            linger_ns=round(given.linger_ms * NS_PER_MS),
            backlog=given.backlog,
            rotate_bytes=given.rotate_mib << 20,
            sync_ns=round(given.sync_ms * NS_PER_MS),
            persistence=given.persistence,
        )


@dataclass(frozen=True, slots=True)
class ShadowLog:
    """Where a live comparison is written, and what it may cost."""

    folder: Path
    settings: Settings

    def compared(
        self, opens: Open, *, between: Between, process: bool, slices: Slices | None = None
    ) -> Comparison:
        """Run a candidate in the shadow, in a process of its own or on a thread.

        The log names the two of ``between``.

        For a process ``opens`` must be picklable; a thread is for a candidate that is elsewhere.

        Raises:
            HarnessError: two limits contradict each other.
            EvidenceError: another process writes a log to the folder.
            BadFile: the folder cannot be written to.
        """
        limits, sampling = self.settings.bounds(), self.settings.sampling
        start: Callable[[], Worker] = partial(ThreadWorker, opens, start_ns=limits.start_ns)
        if process:
            start = partial(
                ProcessWorker, opens, start_ns=limits.start_ns, memory_bytes=limits.memory_bytes
            )
        made = Comparison(
            self.folder,
            start,
            sampler=Sampler(rate=sampling.rate, seed=sampling.seed),
            limits=limits,
            recording=self.settings.writing(),
            slices=slices,
        )
        write(self.folder, between)
        return made
