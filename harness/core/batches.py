"""Batches of work: in this process, in several, or on a Dask cluster."""

import hashlib
import os
import pickle
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.util import find_spec
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Event, Thread
from typing import Any

from harness.core.errors import HarnessError, InvalidArm
from harness.core.files import replacing
from harness.core.folders import is_stray
from harness.core.printable import one_line
from harness.core.reading import whole

Work = Callable[[Any, Path], Iterable[int]]
"""Writes the part file of what it is given, and yields how many steps it has done meanwhile. It is
closed early where the work stops. For other processes it is a value that can be pickled."""
Advance = Callable[[int], object]
_current: ContextVar["Futures | Processes | None"] = ContextVar("executor", default=None)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be done, and the file that it leaves."""

    given: Any
    part: Path
    steps: int = 1


def written(work: Work, batch: Batch) -> Generator[int]:
    """Do one batch, yielding its steps; its part file appears at the end."""
    with replacing(batch.part) as beside:
        yield from work(batch.given, beside)


def _here(work: Work, batches: Sequence[Batch], advance: Advance, threads: int) -> None:
    """Do every batch in this process; after an error or an interrupt no other step is begun."""
    stop = Event()

    def do(batch: Batch) -> None:
        if stop.is_set():
            return
        with closing(written(work, batch)) as steps:
            for done in steps:
                advance(done)
                if stop.is_set():
                    break

    if threads == 1:
        for batch in batches:
            do(batch)
        return
    with futures.ThreadPoolExecutor(threads) as pool:
        try:
            for _ in pool.map(do, batches):
                pass
        finally:
            stop.set()


def current() -> "Futures | Processes | None":
    """Return the executor of the block; None where this process does the batches."""
    return _current.get()


@contextmanager
def using(executor: "Futures | Processes | None") -> Iterator[None]:
    """Run the batches of the block by ``executor``, or by this process where there is none."""
    before = _current.set(executor)
    try:
        yield
    finally:
        _current.reset(before)


def map_batches(
    work: Work,
    batches: Sequence[Batch],
    *,
    advance: Advance = lambda _: None,
    whole: Callable[[Path], bool] = Path.is_file,
    threads: int = 1,
) -> None:
    """Do every batch whose part file is not ``whole``; afterwards all are."""
    missing = []
    for batch in batches:
        if whole(batch.part):
            advance(batch.steps)
        else:
            missing.append(replace(batch, part=batch.part.absolute()))
    if (shared := current()) is None:
        _here(work, missing, advance, threads)
    else:
        shared.each(work, {one.part: one for one in missing}, advance)


PACKAGES = ("harness", "harness_engines")
KINDS = ("*.py", "*.toml")
PACKAGED = "packaged"


@cache
def code_sha256() -> str:
    """Digest of the source of both packages, arms included; not of settings and data of a wheel."""
    found = hashlib.sha256()
    named = (
        (f"{package}/{below.as_posix()}", path)
        for package in PACKAGES
        if (spec := find_spec(package))
        for place in map(Path, spec.submodule_search_locations or ())
        for kind in KINDS
        for path in place.rglob(kind)
        if not is_stray(below := path.relative_to(place)) and below.parts[0] != PACKAGED
    )
    for name, path in sorted(named):
        source = whole(path)
        found.update(f"{name}\\0{len(source)}\\0".encode())
        found.update(source)
    return found.hexdigest()


CONNECT_S, TURN_S = 20, 1.0
QUOTED = 300
AGAIN = "What was done before is kept: run the same command again"
MAX_DEATHS = 3
"""Processes that one batch may lose: the fault is then in the batch."""
Told = tuple[type[HarnessError], str] | None


@dataclass(frozen=True, slots=True, eq=False)
class Futures:
    """Shares batches among the workers of an executor, which see the same folders."""

    executor: futures.Executor
    alive: Callable[[], bool] = lambda: True

    def each(self, work: Work, left: dict[Path, Batch], advance: Advance) -> None:
        """Do the batches that are ``left``, and take out each that is done."""
        packed, code = pickle.dumps(work), code_sha256()
        doing = {self.executor.submit(_on_worker, packed, one, code): one for one in left.values()}
        waiting = {*doing}
        try:
            while waiting:
                done, waiting = futures.wait(
                    waiting, timeout=TURN_S, return_when=futures.FIRST_COMPLETED
                )
                if not (done or self.alive()):
                    raise HarnessError(f"the executor is gone. {AGAIN}")
                for future in sorted(
                    done, key=lambda one: one.cancelled() or bool(one.exception())
                ):
                    _check(future, doing[future])
                    advance(doing[future].steps)
                    del left[doing[future].part]
        finally:
            for future in waiting:
                future.cancel()


class Processes:
    """Shares batches among processes of this machine; where one dies, new ones go on."""

    def __init__(self, count: int, tell: Callable[[str], object]) -> None:
        self._count, self._tell = count, tell
        self._pool: futures.ProcessPoolExecutor | None = None

    def each(self, work: Work, left: dict[Path, Batch], advance: Advance) -> None:
        """Do the batches that are ``left``."""
        deaths = 0
        while left:
            before = len(left)
            if self._pool is None:
                context = get_context("spawn")
                self._pool = futures.ProcessPoolExecutor(self._count, context, initializer=_begin)
            try:
                Futures(self._pool).each(work, left, advance)
            except BrokenProcessPool as exc:
                self.close()
                deaths = deaths + 1 if len(left) == before else 1
                if deaths == MAX_DEATHS:
                    raise InvalidArm(
                        f"{MAX_DEATHS} processes died at the same work. {AGAIN}, with fewer workers"
                        " if memory was short"
                    ) from exc
                self._tell("a worker died: another one takes its batch")
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End all processes, whatever they do."""
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in [*(pool._processes or {}).values()]:  # noqa: SLF001  nothing else ends them
                process.terminate()
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Begin a process: an interrupt is for its parent, and it ends with that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """End this process when its parent has ended, however that was."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def cluster(address: str, tell: Callable[[str], object]) -> Iterator[Futures]:
    """Share batches among the workers of the Dask scheduler at ``address``."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as exc:
        raise HarnessError(
            f"no scheduler at {address} ({one_line(str(exc), QUOTED)}). Start one: dask scheduler"
        ) from exc
    try:
        tell(f"{len(client.scheduler_info()['workers'])} workers at {address}")
        yield Futures(client.get_executor(), lambda: client.status == "running")
    finally:
        client.close(timeout=CONNECT_S)


@contextmanager
def shared(workers: int, address: str, tell: Callable[[str], object]) -> Iterator[None]:
    """Share the batches of the block: among processes, or on the cluster at ``address``."""
    if address:
        with cluster(address, tell) as found, using(found):
            yield
    else:
        with closing(Processes(workers, tell)) as pool, using(pool):
            yield


def _check(future: futures.Future[Told], batch: Batch) -> None:
    """Raise what a batch raised."""
    try:
        told = future.result()
    except futures.CancelledError as exc:
        raise HarnessError(f"the executor is gone. {AGAIN}") from exc
    except BrokenProcessPool:
        raise
    except Exception as exc:
        raise InvalidArm(f"{one_line(str(exc), QUOTED)}. {AGAIN}") from exc
    if told is not None:
        raised, said = told
        raise raised(said)
    if not batch.part.is_file():
        raise HarnessError(
            f"{batch.part}: a worker wrote it, and it is not here. Share that folder with all"
            " workers"
        )


def _on_worker(packed: bytes, batch: Batch, code: str) -> Told:
    """Do one batch on a worker; return what it raised."""
    if code != code_sha256():
        return HarnessError, "a worker has another version of the program"
    try:
        for _ in written(_unpacked(packed), batch):
            pass
    except HarnessError as exc:
        return HarnessError, str(exc)
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        return InvalidArm, f"{type(exc).__name__}: {exc}"
    return None


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Work:
    work: Work = pickle.loads(packed)  # noqa: S301  by this program, through the user's executor
    return work
