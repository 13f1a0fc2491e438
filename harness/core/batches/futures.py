"""Batches done by any executor of ``concurrent.futures``, such as that of a Dask cluster.

The executor sees the batches alone; what they leave are part files. Where it is lost the command
ends, and the same command goes on where it was.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.core.batches.batch import Advance, Batch, Work, written
from harness.core.batches.source import code_sha256
from harness.core.errors import HarnessError, InvalidArm
from harness.core.printable import one_line

CONNECT_S, TURN_S = 20, 1.0
QUOTED = 300
AGAIN = "What was done before is kept: run the same command again"
Told = tuple[type[HarnessError], str] | None
"""What the work raised."""


@dataclass(frozen=True, slots=True, eq=False)
class Futures:
    """Shares batches among the workers of an executor, which all see ``folder``."""

    executor: Executor
    folder: Path
    alive: Callable[[], bool] = lambda: True
    """Whether the executor can still answer."""

    def each(self, work: Work, batches: Sequence[Batch], advance: Advance, threads: int) -> None:  # noqa: ARG002  up to the workers
        """Do every batch.

        Raises:
            HarnessError: the work raised one, or the executor is gone; InvalidArm: it raised
                something else, or killed its workers.
        """
        packed, code = pickle.dumps(work), code_sha256()
        doing = {self.executor.submit(_on_worker, packed, one, code): one for one in batches}
        left = {*doing}
        try:
            while left:
                done, left = wait(left, timeout=TURN_S, return_when=FIRST_COMPLETED)
                if not (done or self.alive()):
                    raise HarnessError(f"the executor is gone. {AGAIN}")
                for future in done:
                    _check(future, doing[future])
                    advance(doing[future].steps)
        finally:
            for future in left:
                future.cancel()


@contextmanager
def cluster(address: str, folder: Path, tell: Callable[[str], object]) -> Iterator[Futures]:
    """Share batches among the workers of the Dask scheduler at ``address``.

    Raises:
        HarnessError: no scheduler answers there.
        ModuleNotFoundError: the extra cluster is not installed.
    """
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as exc:
        raise HarnessError(
            f"no scheduler at {address} ({one_line(str(exc), QUOTED)}). Start one: dask scheduler"
        ) from exc
    try:
        tell(f"{len(client.scheduler_info()['workers'])} workers at {address}")
        yield Futures(client.get_executor(), folder, lambda: client.status == "running")
    finally:
        client.close(timeout=CONNECT_S)


def _check(future: Future[Told], batch: Batch) -> None:
    """Raise what a batch raised."""
    try:
        told = future.result()
    except CancelledError as exc:
        raise HarnessError(f"the executor is gone. {AGAIN}") from exc
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
    except Exception as exc:  # noqa: BLE001  whatever an engine raises
        return InvalidArm, f"{type(exc).__name__}: {exc}"
    return None


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Work:
    work: Work = pickle.loads(packed)  # noqa: S301  by this program, through the user's executor
    return work
