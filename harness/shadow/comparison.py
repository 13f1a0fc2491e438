"""The live comparison: what was served goes in, records come out."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from queue import Empty, Queue, SimpleQueue
from threading import Event, Lock, Thread
from time import monotonic, monotonic_ns, perf_counter_ns, sleep, time_ns
from typing import Self

import numpy as np

from harness.core.engine import Answer, Manifest, Searcher, TakesParams
from harness.core.errors import EvidenceError, HarnessError
from harness.core.printable import many
from harness.core.records import Scalar
from harness.core.run import Status
from harness.shadow import pair
from harness.shadow.log import BETWEEN, FILE, OFF, Between, LogWriter
from harness.shadow.pair import Attempt, RecordBatch, ServedQuery, Slices, told, trouble
from harness.shadow.record import (
    AnyRecord,
    Degradation,
    Observation,
    ProblemKind,
    client_key,
    dumped,
)
from harness.shadow.settings import MILLION, MINUTE_NS, NS_PER_S, ComparisonSettings, Limits
from harness.shadow.worker import Lane, Open, ProcessWorker


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
    """It is switched off, or closed."""
    QUEUE = "queue"
    BUDGET = "budget"
    """The candidate has had its time of this minute."""


class LoadShedder:
    """Admits at most ``in_flight + queue`` pairs at once, and a candidate's time a minute."""

    def __init__(self, limits: Limits, clock: Callable[[], int] = monotonic_ns) -> None:
        self.most = limits.in_flight + limits.queue
        """How many may wait or run at once."""
        self._budget_ns = limits.budget_s * NS_PER_S
        self._clock = clock
        self._lock = Lock()
        self._spent: deque[tuple[int, int]] = deque()
        self._spent_ns = 0
        self.shed: Counter[ShedReason] = Counter()
        self.off = False
        """Whether all that comes is shed."""
        self.inside = 0
        """Pairs that wait or run."""

    def admit(self) -> ShedReason | None:
        """Admit a pair, which must be ``done`` later, or return the reason why not."""
        with self._lock:
            reason = self._reason()
            if reason is None:
                self.inside += 1
            else:
                self.shed[reason] += 1
            return reason

    def _reason(self) -> ShedReason | None:
        if self.off:
            return ShedReason.OFF
        if self.inside >= self.most:
            return ShedReason.QUEUE
        since = self._clock() - MINUTE_NS
        while self._spent and self._spent[0][0] <= since:
            self._spent_ns -= self._spent.popleft()[1]
        return ShedReason.BUDGET if self._spent_ns >= self._budget_ns else None

    def done(self, candidate_ns: int) -> None:
        """Release a pair, for which the candidate took so long."""
        with self._lock:
            self.inside -= 1
            self._spent.append((self._clock(), candidate_ns))
            self._spent_ns += candidate_ns


Export = Callable[[Sequence[Observation]], None]
"""Reports attempts that were written to somewhere else too."""
LOG = logging.getLogger("harness.shadow")
REMEDY = "Free the space or the rights; until then nothing is compared"
LOOK_S = 0.5
"""How often ``tick`` is called, and a log that cannot be written is tried, where nothing comes."""
BATCH, LINGER_S = 16, 0.25
"""Most pairs that are compared and written at once, and how long one waits for others, which makes
each cheaper. A batch takes about 2 ms of the interpreter's lock; a kill takes what waits."""
BACKLOG = 10_000
"""Pairs that may wait to be written; beyond it they are lost, and counted."""
NAP_S = 0.0005
"""Pause after each batch. Comparing holds the interpreter's lock; whoever serves gets it then."""


class Recorder(Thread):
    """Takes pairs and troubles, writes them in batches, and calls ``tick`` now and then."""

    def __init__(
        self,
        log: LogWriter,
        *,
        slices: Slices | None,
        tick: Callable[[], None],
        export: Export | None,
    ) -> None:
        super().__init__(name="shadow recorder", daemon=True)
        self._log, self._slices, self._tick, self._export = log, slices, tick, export
        self._inbox: Queue[Attempt | Degradation | None] = Queue()
        self._closing, self._losing = Event(), Lock()
        self._unsaid = 0
        self._owed: list[Degradation] = []
        self._reported = False
        self.cause = "too many waited to be written"
        self.stuck = ""
        """Why the log cannot be written now; empty where it can."""
        self.lost = 0
        """Attempts that were not written down."""

    def put(self, item: Attempt | Degradation) -> None:
        """Pass on a pair or a trouble; where too many wait it is lost."""
        if self._inbox.qsize() >= BACKLOG:
            self._lose(isinstance(item, Attempt))
        else:
            self._inbox.put(item)

    def _lose(self, count: int) -> None:
        with self._losing:
            self.lost += count
            self._unsaid += count

    @property
    def idle(self) -> bool:
        """Whether all that was handed over is written."""
        return not self._inbox.unfinished_tasks

    def close(self, timeout_s: float) -> None:
        """Write what is there and end; the log is closed by then, if that takes no longer."""
        self._closing.set()
        self._inbox.put(None)
        self.join(timeout_s)

    def run(self) -> None:
        items: list[Attempt | Degradation | None] = []
        while None not in items:
            items = self._batch()
            if items or self.stuck:
                self._write([one for one in items if one is not None])
                self._closing.wait(NAP_S)
            for _ in items:
                self._inbox.task_done()
            try:
                self._tick()
            except Exception as exc:  # noqa: BLE001  the recorder must go on
                self.put(trouble(ProblemKind.FAULT, told(exc)))
        if self._unsaid or self.stuck:
            self._write(())
        with suppress(OSError):
            self._log.close()

    def _batch(self) -> list[Attempt | Degradation | None]:
        """Wait for something, then for more of it; None is the end of all."""
        found: list[Attempt | Degradation | None] = []
        with suppress(Empty):
            found.append(self._inbox.get(timeout=LOOK_S))
            if self._inbox.qsize() + 1 < BATCH:
                self._closing.wait(LINGER_S)
            while found[-1] is not None and len(found) < BATCH:
                found.append(self._inbox.get_nowait())
        return found

    def _write(self, items: Sequence[Attempt | Degradation]) -> None:
        attempts = [item for item in items if isinstance(item, Attempt)]
        troubles = self._owed + [item for item in items if isinstance(item, Degradation)]
        unsaid, unwritten, writer = self._unsaid, len(attempts), self._log.writer
        try:
            found = self._judged(attempts)
            if unsaid:
                cause = f"{unsaid} were not written down: {self.cause}"
                found.degradations.append(trouble(ProblemKind.FAULT, cause))
            self._log.append(found.observations, found.divergences, ())
            unwritten = 0
            own = [replace(one, writer=writer) for one in (*found.degradations, *troubles)]
            self._log.append((), (), own)
        except Exception as exc:  # noqa: BLE001  a full disk must not end the recorder
            self.cause, self._owed = told(exc), troubles[:BACKLOG]
            if not self._reported:
                LOG.error("%s: the log cannot be written (%s). %s", self._log.folder, exc, REMEDY)  # noqa: TRY400  no traceback
            self.stuck, self._reported = self.cause, True
            self._lose(unwritten)
            return
        self._owed, self.stuck = [], ""
        self._reported = self._reported and not attempts
        with self._losing:
            self._unsaid -= unsaid
        try:
            if self._export:
                self._export(found.observations)
        except Exception as exc:  # noqa: BLE001  the log has them all the same
            self._export = None
            self.put(trouble(ProblemKind.FAULT, f"nothing is exported from here on: {told(exc)}"))

    def _judged(self, attempts: Sequence[Attempt]) -> RecordBatch:
        """Judge a batch, or, where that fails, each of it, so that one spoils no other."""
        try:
            return self._as_records(attempts, self._slices)
        except Exception as exc:  # noqa: BLE001  found out one by one
            if len(attempts) > 1:
                alone = zip(*(self._judged([one]) for one in attempts), strict=True)
                return RecordBatch(*(list(chain.from_iterable(kind)) for kind in alone))
            (attempt,), why = attempts, told(exc)
        error, served = "could not be written down", attempt.served
        bare = ServedQuery(served.text, 1, {}, None, error, served.elapsed_ns, "")
        skipped = pair.unanswered(Status.NOT_ASKED, why)
        kept = replace(attempt, served=bare, candidate=skipped, after="", shed="")
        found = self._as_records([kept], None)
        found.degradations.append(trouble(ProblemKind.FAULT, why, attempt))
        return found

    def _as_records(self, attempts: Sequence[Attempt], slices: Slices | None) -> RecordBatch:
        found = pair.judged(attempts, writer=self._log.writer, slices=slices)
        own: list[AnyRecord] = [*found.observations, *found.divergences, *found.degradations]
        for record in own:
            dumped(record)  # raises where a line is too long
        return found


PAUSE_S = 0.005
CAUSES = 16
"""Causes of queries that were not taken, at once; a client may make up any number of them."""
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
        start: Callable[[], ProcessWorker],
        settings: ComparisonSettings,
        slices: Slices | None = None,
        export: Export | None = None,
    ) -> None:
        limits, log = settings.limits, LogWriter(folder)
        self.folder = folder
        self.gate = LoadShedder(limits)
        self._sampler = Sampler(rate=settings.sampling.rate, seed=settings.sampling.seed)
        self._salt, self._before = log.salt, log.served
        self._number, self._served = log.number, log.served
        self._numbering, self._faulting = Lock(), Lock()
        self._attempted, self._faults, self._closed = 0, 0, False
        self._not_taken: Counter[str] = Counter()
        """By cause, since they were last written down."""
        self._queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self._recorder = Recorder(log, tick=self._tick, slices=slices, export=export)
        self._lanes = [
            Lane(self._queue, start=start, limits=limits, done=self._done)
            for _ in range(limits.in_flight)
        ]
        self.gate.off = (folder / OFF).exists()
        for thread in (self._recorder, *self._lanes):
            thread.start()

    def offer(self, served: ServedQuery, generation: Callable[[], str]) -> None:
        """Take a query that was served; never raises, never waits for the candidate."""
        try:
            if self.stuck:
                raise EvidenceError(UNWRITABLE)  # noqa: TRY301  counted below, as every failure is
            kept = served.checked()
            with self._numbering:
                self._served += 1
                if not self._sampler.takes(self._served):
                    return
                self._number += 1
                number, order = self._number, self._served
            kept = kept._replace(client=client_key(kept.client, self._salt))
            attempt = Attempt(number, order, time_ns(), kept, generation)
            if reason := self.gate.admit():
                self._recorder.put(replace(attempt, after=served.generation, shed=reason))
            else:
                self._queue.put(attempt)
            with self._numbering:  # only now, as ``drain`` waits for all that count
                self._attempted += 1
        except Exception as exc:  # noqa: BLE001  nothing of this may reach who is served
            self.fault(exc)

    def fault(self, exc: Exception) -> None:
        """Count a query that could not be taken; each is written down with its cause, soon."""
        with self._faulting:
            self._faults += 1
            cause = told(exc)
            known = cause in self._not_taken or len(self._not_taken) < CAUSES
            self._not_taken[cause if known else "other causes"] += 1

    def _tell_not_taken(self) -> None:
        with self._faulting:  # until they are passed on, so that ``drain`` misses none
            for cause, times in self._not_taken.items():
                self._recorder.put(trouble(ProblemKind.NOT_TAKEN, cause, times=times))
            self._not_taken.clear()

    def _done(self, attempt: Attempt) -> None:
        self._recorder.put(attempt)
        self.gate.done((attempt.candidate and attempt.candidate.elapsed_ns) or 0)

    def _tick(self) -> None:
        if not self.stuck:
            self._tell_not_taken()
        # every pair is shed while the file is there; those that wait are still compared
        there = (self.folder / OFF).exists()  # a look at the disk, during which it may be closed
        self.gate.off = there or self._closed

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
            served=self._served - self._before,
            attempted=self._attempted,
            shed=dict(self.gate.shed),
            lost=self._recorder.lost,
            faults=self._faults,
        )

    def drain(self, timeout_s: float) -> bool:
        """Wait until every attempt is written down; False where that took too long."""
        until = monotonic() + timeout_s
        self._tell_not_taken()
        while self.gate.inside or not self._recorder.idle:
            if monotonic() > until:
                return False
            sleep(PAUSE_S)
        return True

    def close(self) -> None:
        """Ask the candidate no more, write down what is there, and let go of the folder."""
        until = monotonic() + 10.0  # a lane that is busy for longer is left alone
        self._closed = self.gate.off = True
        for lane in self._lanes:
            lane.stopped = True
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

    @property
    def manifest(self) -> Manifest:
        """What the control has open."""
        return self._control.manifest

    def __getattr__(self, name: str) -> object:
        return getattr(self._control, name)

    def search(self, text: str, k: int, *, client: str = "") -> Answer:
        """Answer as the control does; ``client`` is who sent the query, and no engine sees it."""
        return self._served(partial(self._control.search, text, k), (text, k, {}), client)

    def search_with(
        self, text: str, k: int, params: Mapping[str, Scalar], *, client: str = ""
    ) -> Answer:
        """Answer as the control does; one that takes no params is queried with the text alone."""
        if self._takes_params is None:
            ask = partial(self._control.search, text, k)
        else:
            ask = partial(self._takes_params.search_with, text, k, params)
        return self._served(ask, (text, k, params), client)

    def _served(self, ask: Callable[[], Answer], question: pair.Question, client: str) -> Answer:
        generation = self._generation()
        start = perf_counter_ns()

        def offer(answer: object, error: str = "") -> None:
            took_ns = perf_counter_ns() - start
            served = ServedQuery(*question, answer, error, took_ns, generation, client)
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

    def _generation(self) -> str:
        try:
            return pair.generation_of(self._control)
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
        BETWEEN.write(self.folder / FILE, between)
        return made
