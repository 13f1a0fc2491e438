"""The workers of a trial: processes of their own, each with threads, that start together.

Every worker opens the arm for itself. Threads of one process share its interpreter, so they show
what an engine does that holds it; processes do not. The parent only waits, so its own cost is in
no measured time. Processes are started afresh for each trial (spawn), so each trial has its cold
start, and the memory that is counted is that of this arm alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Barrier, BrokenBarrierError, Thread
from time import process_time_ns
from typing import Any, NamedTuple

from harness.core.engine import Searcher
from harness.core.errors import InvalidArm
from harness.core.run import Status
from harness.replay.collector import setting_aside
from harness.replay.load.loop import Plan, Served, WallClock, Worker
from harness.replay.memory import peak_bytes, resident_bytes

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
class Part:
    """What one process brings back."""

    served: tuple[Served, ...]
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
        """Give the number of the next arrival."""
        with self.ticket.get_lock():
            self.ticket.value += 1
            return int(self.ticket.value) - 1

    def begin(self) -> int:
        """Wait for the other processes; the first in line sets the start for all."""
        if self.ready.wait() == 0:
            self.start.value = WallClock().now_ns() + HEAD_START_NS
        self.ready.wait()
        return int(self.start.value)


def run_pool(opener: Opener, plan: Plan, pool: WorkerPool) -> tuple[Part, ...]:
    """Open the arm in every worker, start them together, and wait until all are done.

    Raises:
        InvalidArm: a process could not open the arm, or died.
    """
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


def _collect(children: dict[Any, SpawnProcess]) -> tuple[Part, ...]:
    parts: list[Part] = []
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


def _process(serve: Callable[[Shared], Part], shared: Shared, pipe: Connection) -> None:
    """Be one process of a crew."""
    try:
        pipe.send(serve(shared))
    except KeyboardInterrupt:
        shared.ready.abort()
    except BrokenBarrierError:
        pass  # another process failed, and says why
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        pipe.send(f"{type(exc).__name__}: {exc}")
        shared.ready.abort()


def work(opener: Opener, plan: Plan, threads: int, number: int, shared: Shared) -> Part:
    """Be all threads of process ``number``: open, warm up, wait for the others, serve."""
    before = resident_bytes()
    served: list[Served] = []
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
                first = Worker(plan, searcher, shared.take, WallClock(), 0)
                cold.extend(first.warm_up(number * threads + of))
                if of == 0:
                    set_aside()
                at_once.wait()
                worker = Worker(plan, searcher, shared.take, WallClock(), began[0][0])
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
    return Part(
        served=tuple(sorted(served)),
        cold=tuple(cold),
        cpu_ns=ended_cpu_ns - cpu_ns - sum(waiting_ns),
        before_bytes=before,
        resident_bytes=resident,
        peak_bytes=max(peak_bytes(), resident),
        start_ns=start_ns,
    )


def unserved(plan: Plan, parts: tuple[Part, ...]) -> int:
    """Count the arrivals that no worker came to before the trial was given up."""
    done = sum(len(part.served) for part in parts)
    return 0 if plan.offsets_ns is None else len(plan.offsets_ns) - done


def answered(parts: tuple[Part, ...]) -> tuple[Served, ...]:
    """Give every arrival that was answered, in the order of arrival."""
    found = (one for part in parts for one in part.served if one.status is Status.ANSWERED)
    return tuple(sorted(found))
