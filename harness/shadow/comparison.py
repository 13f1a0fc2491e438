"""The live comparison: its settings; what was served goes in, records come out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, RLock
from time import monotonic, monotonic_ns, perf_counter_ns, sleep, time_ns
from typing import Self

import numpy as np

from harness.core.engine import Answer, Manifest, Searcher, TakesParams
from harness.core.errors import EvidenceError, HarnessError
from harness.core.printable import many
from harness.core.records import Scalar
from harness.shadow.log import OFF, Between, LogWriter, write
from harness.shadow.pair import Attempt, Generation, ServedQuery, comparable, told, trouble
from harness.shadow.record import ProblemKind, client_key
from harness.shadow.recorder import Export, Recorder, Slices
from harness.shadow.settings import (
    MILLION,
    MINUTE_NS,
    NS_PER_MS,
    NS_PER_S,
    ComparisonSettings,
    Limits,
)
from harness.shadow.worker import CandidateWorker, Lane, Open, ProcessWorker


class Sampler:
    """Picks a share of the queries by their number, by error diffusion in whole millionths.

    Of any n queries in a row n times the rate are picked, one more or one less at most, so without
    bursts. Nothing is left to chance but the phase, which ``seed`` draws.
    """

    def __init__(self, *, rate: int, seed: int) -> None:
        self._phase, self.rate = int(np.random.default_rng(seed).integers(MILLION)), rate

    def takes(self, number: int) -> bool:
        """Return whether the query of this number, from 1, is picked."""
        before = self._phase + (number - 1) * self.rate
        return (before + self.rate) // MILLION > before // MILLION


class ShedReason(StrEnum):
    """Why a pair was shed."""

    OFF = "off"
    """Somebody, or the comparison itself, switched it off."""
    IN_FLIGHT = "in_flight"
    QUEUE = "queue"
    BUDGET = "budget"
    """The candidate has had its time of this minute."""


class LoadShedder:
    """Admits at most ``in_flight + queue`` pairs at once, and a candidate's time a minute."""

    def __init__(self, limits: Limits, clock: Callable[[], int] = monotonic_ns) -> None:
        self._most = limits.room
        self._full = ShedReason.QUEUE if limits.queue else ShedReason.IN_FLIGHT
        self._budget_ns = limits.budget_s * NS_PER_S
        self._clock = clock
        self._lock = Lock()
        self._inside = 0
        self._spent: deque[tuple[int, int]] = deque()
        self._spent_ns = 0
        self._shed: Counter[ShedReason] = Counter()
        self._off = ""

    def admit(self) -> ShedReason | None:
        """Admit a pair, which must be ``done`` later, or return the reason why not."""
        with self._lock:
            reason = self._reason()
            if reason is None:
                self._inside += 1
            else:
                self._shed[reason] += 1
            return reason

    def _reason(self) -> ShedReason | None:
        if self._off:
            return ShedReason.OFF
        if self._inside >= self._most:
            return self._full
        since = self._clock() - MINUTE_NS
        while self._spent and self._spent[0][0] <= since:
            self._spent_ns -= self._spent.popleft()[1]
        return ShedReason.BUDGET if self._spent_ns >= self._budget_ns else None

    def done(self, candidate_ns: int) -> None:
        """Release a pair, for which the candidate took so long."""
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
    def shed(self) -> Mapping[ShedReason, int]:
        """How many were shed, by reason."""
        with self._lock:
            return dict(self._shed)


OFF_BY_FILE = "there is a file 'off' in the folder of the log"
PAUSE_S = 0.005
MIB = 1 << 20
CAUSES = 16
"""Causes of queries that were not taken, at once; a client may make up any number of them."""
OTHER_CAUSES = "other causes"
UNWRITABLE = "the log cannot be written"


@dataclass(frozen=True, slots=True)
class ComparisonCounts:
    """What the comparison did since it was made."""

    served: int
    attempted: int
    shed: Mapping[ShedReason, int]
    lost: int
    faults: int
    """Queries at which the comparison's own code failed; they are not attempts."""


class LiveComparison:
    """A candidate beside the serving engine, and the log of both.

    ``offer`` is all that the serving path calls: it numbers the query, asks the sampler and the
    gate, and puts it into a queue. Make it after the last fork of a server that forks, one for each
    process, each with its own folder.
    """

    def __init__(
        self,
        folder: Path,
        start: Callable[[], CandidateWorker],
        settings: ComparisonSettings,
        slices: Slices | None = None,
        export: Export | None = None,
    ) -> None:
        limits, recording = settings.limits, settings.recording
        log = LogWriter(
            folder,
            rotate_bytes=int(recording.rotate_mib * MIB),
            sync_ns=round(recording.sync_ms * NS_PER_MS),
        )
        self.folder = folder
        self._off_file = folder / OFF
        self._sampler = Sampler(rate=settings.sampling.rate, seed=settings.sampling.seed)
        self._gate, self._salt = LoadShedder(limits), log.salt
        self._numbering = Lock()
        self._first = log.number, log.served
        self._number, self._served = self._first
        self._faulting = RLock()
        self._faults = 0
        self._not_taken: Counter[str] = Counter()
        """By cause, since they were last written down."""
        self._close_s = limits.close_s
        self._queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self._recorder = Recorder(log, recording, tick=self._tick, slices=slices, export=export)
        self._lanes = [
            Lane(self._queue, start=start, limits=limits, done=self._done, tell=self._recorder.put)
            for _ in range(limits.in_flight)
        ]
        self._look_at_file()
        for thread in (self._recorder, *self._lanes):
            thread.start()

    def offer(self, served: ServedQuery, generation: Callable[[], str]) -> None:
        """Take a query that was served; never raises, never waits for the candidate."""
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
        with self._faulting:
            found, self._not_taken = self._not_taken, Counter()
        for cause, times in found.items():
            self._recorder.put(trouble(ProblemKind.NOT_TAKEN, cause, times=times))

    def _offer(self, served: ServedQuery, generation: Callable[[], str]) -> None:
        if self.stuck:
            raise EvidenceError(UNWRITABLE)
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
            self._recorder.put(attempt._replace(after=served.generation, shed=reason))

    def _done(self, attempt: Attempt) -> None:
        self._recorder.put(attempt)
        self._gate.done((attempt.candidate and attempt.candidate.elapsed_ns) or 0)

    def _tick(self) -> None:
        if not self.stuck:
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
        self._recorder.put(trouble(ProblemKind.DISABLED, cause))

    @property
    def off(self) -> str:
        """Why it is switched off; empty where it is on."""
        return self._gate.off

    def switch_on(self) -> None:
        """Compare again."""
        self._gate.switch_on()

    @property
    def stuck(self) -> str:
        """Why the log cannot be written now, and nothing is compared; empty where it can."""
        return self._recorder.stuck

    def check_written(self) -> None:
        """Raise where attempts could not be written down."""
        if self.counts.lost or self.stuck:
            raise HarnessError(
                f"{self.folder}: {many(self.counts.lost, 'attempt')} lost ({self._recorder.cause})."
                " Free the space or the rights, and start again"
            )

    @property
    def counts(self) -> ComparisonCounts:
        """What was done since it was made."""
        return ComparisonCounts(
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
        self._tell_not_taken()
        while self._gate.inside or not self._recorder.idle:
            if monotonic() > until:
                return False
            sleep(PAUSE_S)
        return True

    def close(self) -> None:
        """Ask the candidate no more, write down what is there, and let go of the folder."""
        until = monotonic() + self._close_s
        self._gate.switch_off("closed")
        for lane in self._lanes:
            lane.stop()
            self._queue.put(None)
        for lane in self._lanes:
            lane.join(max(until - monotonic(), 0))
        self._tell_not_taken()
        self._recorder.close(max(until - monotonic(), PAUSE_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Shadowed:
    """Answers with the control's very answer, and offers each query to a comparison.

    What the control raises is raised. What the comparison does is not seen by who asks. Whatever
    else the control can do it can do here.
    """

    def __init__(self, control: Searcher, comparison: LiveComparison) -> None:
        self._control, self._comparison = control, comparison
        self._takes_params = control if isinstance(control, TakesParams) else None
        self._generation = partial(_known, Generation(control))

    @property
    def manifest(self) -> Manifest:
        """What the control has open."""
        return self._control.manifest

    def __getattr__(self, name: str) -> object:
        return getattr(self._control, name)

    def search(self, text: str, k: int, *, client: str = "") -> Answer:
        """Answer as the control does; ``client`` is who sent the query, and no engine sees it."""
        return self._served(partial(self._control.search, text, k), text, k, {}, client)

    def search_with(
        self, text: str, k: int, params: Mapping[str, Scalar], *, client: str = ""
    ) -> Answer:
        """Answer as the control does; one that takes no params is queried with the text alone."""
        if self._takes_params is None:
            ask = partial(self._control.search, text, k)
        else:
            ask = partial(self._takes_params.search_with, text, k, params)
        return self._served(ask, text, k, params, client)

    def _served(
        self,
        ask: Callable[[], Answer],
        text: str,
        k: int,
        params: Mapping[str, Scalar],
        client: str,
    ) -> Answer:
        generation = self._generation()
        start = perf_counter_ns()

        def offer(answer: object, error: str = "") -> None:
            took_ns = perf_counter_ns() - start
            served = ServedQuery(text, k, params, answer, error, took_ns, generation, client)
            self._comparison.offer(served, self._generation)

        try:
            answer = ask()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as exc:  # a panic of a Rust engine is no Exception
            offer(None, told(exc))
            raise
        offer(answer)
        return answer


def _known(generation: Generation) -> str:
    try:
        return generation()
    except Exception:  # noqa: BLE001  must not reach who is served
        return ""


@dataclass(frozen=True, slots=True)
class ShadowLog:
    """Where a live comparison is written, and what it may cost."""

    folder: Path
    settings: ComparisonSettings

    def compared(
        self,
        opens: Open,
        *,
        between: Between,
        slices: Slices | None = None,
        export: Export | None = None,
    ) -> LiveComparison:
        """Run a candidate in a process of its own, so ``opens`` must be picklable."""
        start = partial(ProcessWorker, opens, self.settings.limits)
        made = LiveComparison(self.folder, start, self.settings, slices, export)
        write(self.folder, between)
        return made
