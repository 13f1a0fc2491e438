"""Batches done by processes of this machine; one that is killed costs its batch's time.

Each process is started afresh (spawn) and stays until the block ends. It ends at once where the
process that started it is gone, so a killed command leaves nothing behind.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from typing import Any

from harness.core.batches.batch import Advance, Batch, Work, written
from harness.core.errors import HarnessError, InvalidArm

MAX_DEATHS = 3
"""Processes that one batch may lose: the fault is then in the batch."""
STOPPED_S = 5.0
Told = int | tuple[type[HarnessError], str] | None
"""Steps; what was raised; or that the batch is done."""


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    number: int
    process: SpawnProcess
    pipe: Connection


@dataclass(slots=True, eq=False)
class Processes:
    """Shares batches among so many processes."""

    count: int
    folder: Path
    tell: Callable[[str], object]
    _idle: list[_Worker] = field(default_factory=list)
    _all: dict[int, _Worker] = field(default_factory=dict)

    def each(self, work: Work, batches: Sequence[Batch], advance: Advance, threads: int) -> None:  # noqa: ARG002  one thread a process
        """Do every batch.

        Raises:
            HarnessError: the work raised one; InvalidArm: it raised something else, or a batch
                killed its process ``MAX_DEATHS`` times.
        """
        packed = pickle.dumps(work)
        left, busy = deque(batches), dict[Any, tuple[_Worker, Batch]]()
        deaths: Counter[Any] = Counter()
        try:
            while left or busy:
                while left and (worker := self._free(len(busy))):
                    batch = left.popleft()
                    busy[worker.pipe] = worker, batch
                    with suppress(OSError):  # a dead one is heard below
                        worker.pipe.send((packed, batch))
                for pipe in wait([*busy]):
                    worker, batch = busy[pipe]
                    try:
                        told: Told = worker.pipe.recv()
                    except (EOFError, OSError):
                        del busy[pipe]
                        self._buried(worker, batch, deaths)
                        left.appendleft(batch)
                        continue
                    if isinstance(told, int):
                        advance(told)
                        continue
                    del busy[pipe]
                    self._idle.append(worker)
                    if told is not None:
                        raised, said = told
                        raise raised(said)
        finally:
            for worker, _ in busy.values():
                self._end(worker)

    def _free(self, busy: int) -> _Worker | None:
        """Give a process without work, started where there are fewer than there may be."""
        if self._idle:
            return self._idle.pop()
        if busy >= self.count:
            return None
        number = next(n for n in range(1, self.count + 1) if n not in self._all)
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        self._all[number] = _Worker(number, process, ours)
        return self._all[number]

    def _buried(self, worker: _Worker, batch: Batch, deaths: Counter[Any]) -> None:
        self._end(worker)
        deaths[batch.part] += 1
        code = worker.process.exitcode
        if deaths[batch.part] == MAX_DEATHS:
            raise InvalidArm(
                f"{MAX_DEATHS} processes died at the same work, the last with exit code {code}."
                " What was done before is kept: run the same command again, with fewer workers if"
                " memory was short"
            )
        self.tell(f"worker {worker.number} died with exit code {code}: another one takes its batch")

    def _end(self, worker: _Worker) -> None:
        self._all.pop(worker.number, None)
        if worker.process.is_alive():
            worker.process.terminate()
        worker.process.join(STOPPED_S)
        worker.pipe.close()

    def close(self) -> None:
        """End all processes."""
        for worker in [*self._all.values()]:
            self._end(worker)
        self._idle.clear()


@contextmanager
def processes(count: int, folder: Path, tell: Callable[[str], object]) -> Iterator[Processes]:
    """Share batches among ``count`` processes until the block ends.

    ``folder`` is for what they exchange; ``tell`` is told of each process that was lost.
    """
    found = Processes(count, folder, tell)
    try:
        yield found
    finally:
        found.close()


def _serve(client: Connection) -> None:
    """Be a process: do batch after batch until there is no client."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    known: tuple[bytes, Work] | None = None
    while True:
        try:
            packed, batch = client.recv()
        except EOFError:
            return
        try:
            if known is None or known[0] != packed:
                known = packed, pickle.loads(packed)  # noqa: S301  by this program, over a pipe
            for done in written(known[1], batch):
                client.send(done)
        except HarnessError as exc:
            client.send((HarnessError, str(exc)))
        except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
            client.send((InvalidArm, f"{type(exc).__name__}: {exc}"))
        else:
            client.send(None)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
