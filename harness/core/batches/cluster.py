"""Batches done by the workers of a Dask cluster, on machines that share a file system.

The scheduler sees the batches alone; what they leave are part files. A worker that is lost costs
the time of its batches, which Dask gives to others. A scheduler that is lost ends the command, and
the same command goes on where it was.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.core.batches.batch import Advance, Batch, Work, written
from harness.core.batches.source import code_sha256
from harness.core.errors import HarnessError, InvalidArm
from harness.core.printable import one_line

CONNECT_S = 20
QUOTED = 300
MAX_LOSSES = 3
"""Times that the scheduler may forget batches, as it does where a connection was cut."""
AGAIN = "What was done before is kept: run the same command again"


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Shares batches among the workers that a scheduler has."""

    client: Any
    folder: Path

    def each(self, work: Work, batches: Sequence[Batch], advance: Advance, threads: int) -> None:  # noqa: ARG002  up to the workers
        """Do every batch.

        Raises:
            HarnessError: the work raised one, or the scheduler is gone; InvalidArm: it raised
                something else, or killed several workers.
        """
        packed = pickle.dumps(work)
        left = list(batches)
        for _ in range(MAX_LOSSES):
            left = self._lost(packed, left, advance)
            if not left:
                return
            if not self._alive():
                break
        raise HarnessError(f"the scheduler of the cluster is gone. {AGAIN}")

    def _lost(self, packed: bytes, batches: Sequence[Batch], advance: Advance) -> list[Batch]:
        """Let workers do batches; give those that the scheduler forgot."""
        from distributed import as_completed

        code, lost = code_sha256(), []
        futures = {
            self.client.submit(_on_worker, packed, batch, code, pure=False): batch
            for batch in batches
        }
        try:
            for future in as_completed(futures, loop=self.client.loop):
                batch = futures[future]
                if future.status not in {"finished", "error"}:
                    lost.append(batch)
                    continue
                _check(future)
                if not batch.part.is_file():
                    raise HarnessError(
                        f"{batch.part}: a worker wrote it, and it is not here. Workers and this"
                        " machine have to share that folder"
                    )
                advance(batch.steps)
        finally:
            if self._alive():
                self.client.cancel([*futures], asynchronous=False)
        return lost

    def _alive(self) -> bool:
        return bool(self.client.status == "running")


@contextmanager
def cluster(address: str, folder: Path, tell: Callable[[str], object]) -> Iterator[Cluster]:
    """Share batches among the workers of the scheduler at ``address`` until the block ends.

    ``folder`` is one that all of them see.

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
        yield Cluster(client, folder)
    finally:
        client.close(timeout=CONNECT_S)


def _check(future: Any) -> None:  # noqa: ANN401  Dask may be absent
    """Raise what a batch raised."""
    if future.status == "error":
        raise InvalidArm(f"{one_line(str(future.exception()), QUOTED)}. {AGAIN}")
    if (told := future.result()) is not None:
        raised, said = told
        raise raised(said)


def _on_worker(packed: bytes, batch: Batch, code: str) -> tuple[type[HarnessError], str] | None:
    """Do one batch on a worker; give what it raised."""
    if code != code_sha256():
        return HarnessError, "a worker of the cluster has another version of the program"
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
    work: Work = pickle.loads(packed)  # noqa: S301  by this program, through the user's cluster
    return work
