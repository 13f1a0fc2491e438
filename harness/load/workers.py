"""Open-loop load: arrivals drawn beforehand, and processes that send them."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from threading import Barrier, BrokenBarrierError
from time import process_time_ns
from typing import Any, NamedTuple

import numpy as np

from harness.core.engine import Searcher
from harness.core.errors import HarnessError, InvalidArm
from harness.core.records import Query
from harness.core.run import Status
from harness.replay.drive import observe
from harness.replay.machine import peak_bytes, resident_bytes, setting_aside
from harness.replay.race import Expected, shown

NS_PER_S = 1_000_000_000


def poisson(
    queries: int, rate: float, seconds: float, seed: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw the arrivals of ``seconds`` at ``rate`` a second; the same for the same seed.

    Return intended starts after the trial's own, ascending, in nanoseconds, and the row in the
    list of ``queries`` that each asks, every one alike.
    """
    if not queries:
        raise HarnessError("the data set is empty; prepare a data set that has queries")
    if not (math.isfinite(rate) and rate > 0):
        raise HarnessError(f"{rate:g} arrivals a second: give a rate above 0")
    rng = np.random.default_rng(list(seed))
    expected = rate * seconds
    gaps = rng.exponential(1 / rate, size=math.ceil(expected + 10 * math.sqrt(expected) + 10))
    starts = np.cumsum(gaps)
    starts = starts[starts < seconds]
    if not len(starts):
        raise HarnessError(f"nothing arrives in {seconds:g} s at {rate:g} a second; try longer")
    picks = rng.integers(queries, size=len(starts))
    return tuple((starts * NS_PER_S).astype(np.int64).tolist()), tuple(picks.tolist())


COARSE_NS = 200_000
"""How long before the intended start a sleeping worker wakes up: more than sleep oversleeps."""


class WallClock:
    """``perf_counter_ns``, the same for all processes of a machine; a test turns one by hand."""

    def now_ns(self) -> int:
        """Read the clock."""
        return time.perf_counter_ns()

    def wait_until(self, at_ns: int) -> int:
        """Sleep most of a wait and watch the clock for the rest; return the processor time spent.

        Between two looks at the clock the processor and the interpreter are yielded.
        """
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
    warm: int
    """Queries of each worker right after opening; their times are not kept."""


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
    """One searcher of its own, that takes one arrival after the other.

    ``take`` gives the number of the next arrival, counted from 0 over all workers.
    """

    def __init__(
        self, plan: TrialPlan, searcher: Searcher, take: Callable[[], int], clock: WallClock
    ) -> None:
        self._plan, self._searcher, self._take, self._clock = plan, searcher, take, clock
        self.start_ns = 0
        """When the trial starts, by the clock."""
        self.waiting_cpu_ns = 0
        """Processor time that was spent on waiting, which is the harness's own."""

    def step(self) -> ServedArrival | None:
        """Serve the next arrival; None where there is none left, or the trial is given up."""
        taken_ns, plan = self._clock.now_ns(), self._plan
        arrival = self._take()
        length_ns = int(plan.seconds * NS_PER_S)
        if plan.offsets_ns is None:
            if taken_ns >= self.start_ns + length_ns:
                return None
            intended_ns = taken_ns
        else:
            given_up_ns = self.start_ns + PATIENCE * length_ns
            if arrival >= len(plan.offsets_ns) or taken_ns > given_up_ns:
                return None
            intended_ns = self.start_ns + plan.offsets_ns[arrival]
            if taken_ns < intended_ns:
                self.waiting_cpu_ns += self._clock.wait_until(intended_ns)
        query = plan.queries[plan.picks[arrival % len(plan.picks)]]
        started_ns = self._clock.now_ns()
        row = observe(self._searcher, query, plan.k, plan.time_limit_ns).row
        ended_ns = self._clock.now_ns()
        answered = row.status is Status.ANSWERED
        stray = answered and shown(row, plan.k) != plan.expected[query.query_id]
        return ServedArrival(
            arrival, intended_ns, taken_ns, started_ns, ended_ns, row.status, stray
        )

    def warm_up(self, number: int) -> None:
        """Ask what comes right after opening, each worker by its ``number`` other queries."""
        plan = self._plan
        for at in range(plan.warm):
            row = plan.picks[(number * plan.warm + at) % len(plan.picks)]
            observe(self._searcher, plan.queries[row], plan.k, plan.time_limit_ns)


Opener = Callable[[], AbstractContextManager[Searcher]]
"""Opens the arm; it is sent to the processes, so it is a value and no closure."""
STOPPED_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What one process brings back."""

    served: tuple[ServedArrival, ...]
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
    """What the processes of a trial share."""

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
            self.start.value = WallClock().now_ns() + 50_000_000  # once all are ready
        self.ready.wait()
        return int(self.start.value)


def run_pool(
    opener: Opener, plan: TrialPlan, processes: int, threads: int
) -> tuple[WorkerResult, ...]:
    """Open the arm in every worker, start them together, and wait until all are done."""
    context = get_context("spawn")
    shared = Shared(context.Barrier(processes), context.Value("q", 0), context.Value("q", 0))
    children: dict[Any, Any] = {}
    results: list[WorkerResult] = []
    try:
        for number in range(processes):
            ours, theirs = context.Pipe(duplex=False)
            args = (theirs, opener, plan, threads, number, shared)
            child = context.Process(target=_serve, args=args, daemon=True)
            child.start()
            theirs.close()
            children[ours] = child
        waiting = dict(children)
        while waiting:
            heard: list[Any] = wait([*waiting])
            results += [_result(pipe, waiting.pop(pipe)) for pipe in heard]
    finally:
        for ours, child in children.items():
            if child.is_alive():
                child.terminate()
            child.join(STOPPED_S)
            ours.close()
    return tuple(results)


def _result(ours: Any, child: Any) -> WorkerResult:  # noqa: ANN401  of multiprocessing
    try:
        result: WorkerResult | str = ours.recv()
    except EOFError:
        child.join(STOPPED_S)
        raise InvalidArm(
            f"a worker died with exit code {child.exitcode} before its trial was over;"
            " try fewer processes, or look for what killed it"
        ) from None
    if isinstance(result, str):
        raise InvalidArm(result)
    return result


def _serve(  # noqa: PLR0917  all of it is sent to the process
    pipe: Connection, opener: Opener, plan: TrialPlan, threads: int, number: int, shared: Shared
) -> None:
    """Run a process of a trial; its result, or what went wrong, is sent to the parent."""
    try:
        pipe.send(work(opener, plan, threads, number, shared))
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
    """Run the threads of process ``number``: open, warm up, wait for the others, serve."""
    before = resident_bytes()
    began: list[tuple[int, int]] = []
    at_once = Barrier(threads, lambda: began.append((shared.begin(), process_time_ns())))

    def thread(of: int) -> tuple[list[ServedArrival], int, int, int]:
        try:
            with opener() as searcher:
                worker = LoadWorker(plan, searcher, shared.take, WallClock())
                worker.warm_up(number * threads + of)
                if of == 0:
                    set_aside()
                at_once.wait()
                worker.start_ns = began[0][0]
                served = list(iter(worker.step, None))
                spent_ns = process_time_ns()
                return served, worker.waiting_cpu_ns, spent_ns, resident_bytes()
        except BaseException:
            at_once.abort()
            raise

    with setting_aside() as set_aside, ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(thread, of) for of in range(threads)]
    if errors := [exc for one in done if (exc := one.exception())]:
        raise next((exc for exc in errors if not isinstance(exc, BrokenBarrierError)), errors[0])
    served, waiting_ns, ended_ns, resident = zip(*(one.result() for one in done), strict=True)
    start_ns, started_ns = began[0]
    return WorkerResult(
        served=tuple(sorted(one for part in served for one in part)),
        cpu_ns=max(ended_ns) - started_ns - sum(waiting_ns),
        before_bytes=before,
        resident_bytes=max(resident),
        peak_bytes=max(peak_bytes(), *resident),
        start_ns=start_ns,
    )
