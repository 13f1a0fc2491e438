"""Open-loop load: arrivals drawn beforehand, and processes that send them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from time import process_time_ns
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Searcher
from harness.core.errors import BadFile, HarnessError, InvalidArm, UnknownName
from harness.core.formats import json_of
from harness.core.reading import numbered
from harness.core.records import Query
from harness.core.run import Status
from harness.replay.drive import TimedOutcome, observe
from harness.replay.machine import peak_bytes, resident_bytes, setting_aside
from harness.replay.race import Expected, shown

NS_PER_S = 1_000_000_000
UNSLICED = "all"
"""Class of a query without a slice."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The schedule of one trial."""

    offsets_ns: NDArray[np.int64]
    """Intended starts after the trial's own start, ascending, shape (arrivals,)."""
    picks: NDArray[np.int64]
    """Row in the list of queries of each arrival, shape (arrivals,)."""
    classes: tuple[str, ...]
    """Query class of each arrival."""
    rate: float
    """Arrivals a second that were intended."""

    def __len__(self) -> int:
        return len(self.offsets_ns)


class Mix:
    """Query classes and how often each is drawn.

    With weights a class is drawn by its weight and then one of its queries, each alike; without,
    every query is drawn alike and its class is its first slice.
    """

    def __init__(self, queries: Sequence[Query], weights: Mapping[str, float]) -> None:
        """Check the weights."""
        if not queries:
            raise HarnessError("the data set is empty; prepare a data set that has queries")
        known = sorted({part for query in queries for part in query.slices})
        for name, weight in weights.items():
            if name not in known:
                raise UnknownName("slice", name, known)
            if not (math.isfinite(weight) and weight > 0):
                raise HarnessError(f"the weight of {name} is {weight:g}; give one above 0")
        self._queries = tuple(queries)
        self._names = tuple(weights)
        total = sum(weights.values())
        self._shares = [weight / total for weight in weights.values()]
        self._members = [
            np.flatnonzero([name in query.slices for query in queries]) for name in weights
        ]

    def draw(
        self, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Draw rows of queries, shape (count,), and the class of each."""
        if not self._names:
            picks = rng.integers(len(self._queries), size=count)
            return picks, tuple(self.class_of(self._queries[row]) for row in picks)
        drawn = rng.choice(len(self._names), size=count, p=self._shares)
        within = rng.random(count)
        picks = np.array(
            [
                self._members[name][int(share * len(self._members[name]))]
                for name, share in zip(drawn, within, strict=True)
            ],
            dtype=np.int64,
        )
        return picks, tuple(self._names[name] for name in drawn)

    @staticmethod
    def class_of(query: Query) -> str:
        """Class of a query that was not drawn by its class."""
        return query.slices[0] if query.slices else UNSLICED


def poisson(mix: Mix, rate: float, seconds: float, seed: Sequence[int]) -> Arrivals:
    """Draw the arrivals of ``seconds`` at ``rate`` a second; the same for the same seed."""
    if not (math.isfinite(rate) and rate > 0):
        raise HarnessError(f"{rate:g} arrivals a second: give a rate above 0")
    rng = np.random.default_rng(list(seed))
    expected = rate * seconds
    gaps = rng.exponential(1 / rate, size=math.ceil(expected + 10 * math.sqrt(expected) + 10))
    starts = np.cumsum(gaps)
    starts = starts[starts < seconds]
    if not len(starts):
        raise HarnessError(f"nothing arrives in {seconds:g} s at {rate:g} a second; try longer")
    picks, classes = mix.draw(len(starts), rng)
    return Arrivals((starts * NS_PER_S).astype(np.int64), picks, classes, rate)


def recorded(path: Path, queries: Sequence[Query]) -> Arrivals:
    """Read arrivals from JSON lines ``{"at_s": 0.25, "query_id": "q1"}``, in order of time.

    Times are seconds after the first midnight or any other start; the first one becomes 0.
    """
    hint = 'Each line is {"at_s": SECONDS, "query_id": "ID"}, in order of time'
    rows = {query.query_id: row for row, query in enumerate(queries)}
    starts: list[float] = []
    picks: list[int] = []
    for number, line in numbered(path):
        try:
            arrival = json_of(line)
            at_s, query_id = float(arrival["at_s"]), arrival["query_id"]
        except (ValueError, KeyError, TypeError) as exc:
            raise BadFile(path, f"no arrival ({exc})", hint, number) from exc
        if not math.isfinite(at_s) or (starts and at_s < starts[-1]):
            raise BadFile(path, f"{at_s:g} s comes before the line above", hint, number)
        if not isinstance(query_id, str) or query_id not in rows:
            raise BadFile(path, f"{query_id!r} is not a query of the data set", hint, number)
        starts.append(at_s)
        picks.append(rows[query_id])
    if len(starts) < 2 or starts[-1] == starts[0]:  # noqa: PLR2004  a rate needs two
        raise BadFile(path, f"{len(starts)} arrivals have no rate", hint)
    offsets = ((np.array(starts) - starts[0]) * NS_PER_S).astype(np.int64)
    classes = tuple(Mix.class_of(queries[row]) for row in picks)
    rate = (len(starts) - 1) / (starts[-1] - starts[0])
    return Arrivals(offsets, np.array(picks, dtype=np.int64), classes, rate)


COARSE_NS = 200_000
"""How long before the intended start a sleeping worker wakes up: more than sleep oversleeps."""


class Clock(Protocol):
    """What time it is, and waiting; a test passes one that it turns by hand."""

    def now_ns(self) -> int:
        """Nanoseconds since some moment that is the same for all processes of a machine."""
        ...

    def wait_until(self, at_ns: int) -> int:
        """Come back at ``at_ns`` or as soon after it as can be; give the processor time spent."""
        ...


class WallClock:
    """``perf_counter_ns``; sleeps most of a wait and looks at the clock for the rest."""

    def now_ns(self) -> int:
        return time.perf_counter_ns()

    def wait_until(self, at_ns: int) -> int:
        """Yield the processor, and the interpreter, between two looks at the clock."""
        spent_ns = time.thread_time_ns()
        coarse_ns = at_ns - COARSE_NS - time.perf_counter_ns()
        if coarse_ns > 0:
            time.sleep(coarse_ns / NS_PER_S)
        while time.perf_counter_ns() < at_ns:
            time.sleep(0)
        return time.thread_time_ns() - spent_ns


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """One trial as every worker knows it."""

    queries: tuple[Query, ...]
    picks: tuple[int, ...]
    """Row of ``queries`` that each arrival asks."""
    offsets_ns: tuple[int, ...] | None
    """Intended starts after the trial's start, shape (arrivals,); None for a closed loop, which
    goes through ``picks`` again and again."""
    seconds: float
    """How long a closed loop runs; an open one is given up ``PATIENCE`` times as late."""
    k: int
    time_limit_ns: int
    expected: Mapping[str, Expected]
    """By query id, from the arm's run: an engine that answers otherwise is not measured."""
    cold: int
    """Queries of each worker right after opening; their times are kept apart."""
    warm: int
    """Queries of each worker after these; their times are not kept."""


PATIENCE = 2
"""A trial that takes this many times its length is given up; what was not asked is unserved."""


class ServedArrival(NamedTuple):
    """One arrival and its outcome; all times by the trial's clock."""

    arrival: int
    intended_ns: int
    taken_ns: int
    """When the worker was free and took it."""
    started_ns: int
    ended_ns: int
    status: Status
    stray: bool
    """Whether the answer was not the one in the arm's run."""

    @property
    def response_ns(self) -> int:
        """From the intended start to the hits shown: what a person waits."""
        return self.ended_ns - self.intended_ns

    @property
    def service_ns(self) -> int:
        """From the real start: what a closed loop would have seen."""
        return self.ended_ns - self.started_ns

    @property
    def lag_ns(self) -> int:
        """How late the generator itself was: the worker was free, the time had come, no start."""
        return self.started_ns - max(self.intended_ns, self.taken_ns)


class LoadWorker:
    """One searcher of its own, that takes one arrival after the other."""

    def __init__(
        self,
        plan: TrialPlan,
        searcher: Searcher,
        take: Callable[[], int],
        clock: Clock,
        start_ns: int,
    ) -> None:
        """``take`` gives the number of the next arrival, counted from 0 over all workers."""
        self._plan = plan
        self._searcher = searcher
        self._take = take
        self._clock = clock
        self._start_ns = start_ns
        self._until_ns = start_ns + int(plan.seconds * NS_PER_S)
        self.waiting_cpu_ns = 0
        """Processor time that was spent on waiting, which is the harness's own."""

    def step(self) -> ServedArrival | None:
        """Serve the next arrival; None where there is none left, or the trial is given up."""
        taken_ns = self._clock.now_ns()
        plan = self._plan
        arrival = self._take()
        if plan.offsets_ns is None:
            if taken_ns >= self._until_ns:
                return None
            intended_ns = taken_ns
        else:
            length_ns = self._until_ns - self._start_ns
            if arrival >= len(plan.offsets_ns) or taken_ns > self._start_ns + PATIENCE * length_ns:
                return None
            intended_ns = self._start_ns + plan.offsets_ns[arrival]
            if taken_ns < intended_ns:
                self.waiting_cpu_ns += self._clock.wait_until(intended_ns)
        query = plan.queries[plan.picks[arrival % len(plan.picks)]]
        started_ns = self._clock.now_ns()
        seen = self._ask(query)
        ended_ns = self._clock.now_ns()
        return ServedArrival(
            arrival,
            intended_ns,
            taken_ns,
            started_ns,
            ended_ns,
            seen.row.status,
            seen.row.status is Status.ANSWERED
            and shown(seen.row, plan.k) != plan.expected[query.query_id],
        )

    def warm_up(self, number: int) -> list[tuple[int, int]]:
        """Ask what comes right after opening; give row of the query and time of the cold ones.

        ``number`` is the worker's own, so that workers begin at different queries. Failures
        are left out: they show again in the trial.
        """
        plan = self._plan
        cold = []
        for at in range(plan.cold + plan.warm):
            row = plan.picks[(number * (plan.cold + plan.warm) + at) % len(plan.picks)]
            seen = self._ask(plan.queries[row])
            if at < plan.cold and seen.row.status is Status.ANSWERED:
                cold.append((row, seen.elapsed_ns))
        return cold

    def _ask(self, query: Query) -> TimedOutcome:
        return observe(self._searcher, query, self._plan.k, self._plan.time_limit_ns)


Opener = Callable[[], AbstractContextManager[Searcher]]
"""Opens the arm; it is sent to the processes, so it is a value and no closure."""
HEAD_START_NS = 50_000_000
"""Between the moment when all are ready and the trial's start."""
STOPPED_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """How many ask at once: ``processes`` times ``threads`` workers."""

    processes: int
    threads: int

    @property
    def workers(self) -> int:
        return self.processes * self.threads


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What one process brings back."""

    served: tuple[ServedArrival, ...]
    cold: tuple[tuple[int, int], ...]
    """Row of the query, and nanoseconds, of each answer right after opening."""
    cpu_ns: int
    """Processor time of the whole process during the trial, less what waiting took."""
    before_bytes: int
    """Resident memory before the arm was opened."""
    resident_bytes: int
    """Resident memory at the end of the trial, indexes that are mapped included."""
    peak_bytes: int
    """The most that was ever resident."""
    start_ns: int


class Shared(NamedTuple):
    """What the processes of a crew share."""

    ready: Any
    ticket: Any
    start: Any

    def take(self) -> int:
        """Return the number of the next arrival."""
        with self.ticket.get_lock():
            self.ticket.value += 1
            return int(self.ticket.value) - 1

    def begin(self) -> int:
        """Wait for the other processes; the first in line sets the start for all."""
        if self.ready.wait() == 0:
            self.start.value = WallClock().now_ns() + HEAD_START_NS
        self.ready.wait()
        return int(self.start.value)


def run_pool(opener: Opener, plan: TrialPlan, pool: WorkerPool) -> tuple[WorkerResult, ...]:
    """Open the arm in every worker, start them together, and wait until all are done."""
    context = get_context("spawn")
    shared = Shared(context.Barrier(pool.processes), context.Value("q", 0), context.Value("q", 0))
    children: dict[Any, SpawnProcess] = {}
    try:
        for number in range(pool.processes):
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(
                target=_process,
                args=(partial(work, opener, plan, pool.threads, number), shared, theirs),
                daemon=True,
            )
            child.start()
            theirs.close()
            children[ours] = child
        return _collect(children)
    finally:
        for ours, child in children.items():
            if child.is_alive():
                child.terminate()
            child.join(STOPPED_S)
            ours.close()


def _collect(children: dict[Any, SpawnProcess]) -> tuple[WorkerResult, ...]:
    parts: list[WorkerResult] = []
    waiting = set(children)
    while waiting:
        heard: list[Any] = list(wait(list(waiting)))
        for ours in heard:
            waiting.discard(ours)
            try:
                said = ours.recv()
            except EOFError:
                child = children[ours]
                child.join(STOPPED_S)
                raise InvalidArm(
                    f"a worker died with exit code {child.exitcode} before its trial was over;"
                    " try fewer processes, or look for what killed it"
                ) from None
            if isinstance(said, str):
                raise InvalidArm(said)
            parts.append(said)
    return tuple(parts)


def _process(serve: Callable[[Shared], WorkerResult], shared: Shared, pipe: Connection) -> None:
    try:
        pipe.send(serve(shared))
    except KeyboardInterrupt:
        shared.ready.abort()
    except BrokenBarrierError:
        pass  # another process failed, and says why
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        pipe.send(f"{type(exc).__name__}: {exc}")
        shared.ready.abort()


def work(
    opener: Opener, plan: TrialPlan, threads: int, number: int, shared: Shared
) -> WorkerResult:
    """Be all threads of process ``number``: open, warm up, wait for the others, serve."""
    before = resident_bytes()
    served: list[ServedArrival] = []
    cold: list[tuple[int, int]] = []
    waiting_ns: list[int] = []
    ended: list[tuple[int, int]] = []
    broken: list[BaseException] = []
    at_once = Barrier(threads, lambda: began.append((shared.begin(), process_time_ns())))
    began: list[tuple[int, int]] = []

    def thread(of: int) -> None:
        try:
            with ExitStack() as opened:
                searcher = opened.enter_context(opener())
                first = LoadWorker(plan, searcher, shared.take, WallClock(), 0)
                cold.extend(first.warm_up(number * threads + of))
                if of == 0:
                    set_aside()
                at_once.wait()
                worker = LoadWorker(plan, searcher, shared.take, WallClock(), began[0][0])
                found = list(iter(worker.step, None))
                served.extend(found)
                waiting_ns.append(worker.waiting_cpu_ns)
                ended.append((process_time_ns(), resident_bytes()))
        except BaseException as exc:  # noqa: BLE001  told to the parent below
            broken.append(exc)
            at_once.abort()

    pool = [Thread(target=thread, args=(of,), daemon=True) for of in range(threads)]
    with setting_aside() as set_aside:
        for one in pool:
            one.start()
        for one in pool:
            one.join()
    if broken:
        raise next((exc for exc in broken if not isinstance(exc, BrokenBarrierError)), broken[0])
    start_ns, cpu_ns = began[0]
    ended_cpu_ns, resident = map(max, zip(*ended, strict=True))
    return WorkerResult(
        served=tuple(sorted(served)),
        cold=tuple(cold),
        cpu_ns=ended_cpu_ns - cpu_ns - sum(waiting_ns),
        before_bytes=before,
        resident_bytes=resident,
        peak_bytes=max(peak_bytes(), resident),
        start_ns=start_ns,
    )


def unserved(plan: TrialPlan, parts: tuple[WorkerResult, ...]) -> int:
    """Count the arrivals that no worker came to before the trial was given up."""
    done = sum(len(part.served) for part in parts)
    return 0 if plan.offsets_ns is None else len(plan.offsets_ns) - done


def answered(parts: tuple[WorkerResult, ...]) -> tuple[ServedArrival, ...]:
    """Return every arrival that was answered, in the order of arrival."""
    found = (one for part in parts for one in part.served if one.status is Status.ANSWERED)
    return tuple(sorted(found))
