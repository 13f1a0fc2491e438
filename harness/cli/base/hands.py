"""Who does the work of a command: this process, several, or a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import err

Workers = Annotated[
    int,
    typer.Option(
        min=1, max=256, help="Processes that share the work. No result depends on their number."
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        help="Address of a Dask scheduler whose workers share the work, such as"
        " tcp://HOST:8786. They need the same program and the same folders."
    ),
]


@contextmanager
def shared(workers: int, cluster: str, cache: Path) -> Iterator[None]:
    """Let processes or a cluster do the batches of the block.

    Raises:
        HarnessError: both are named, or the cluster cannot be reached.
    """
    from harness.core.batches.mapping import using
    from harness.core.errors import HarnessError

    if cluster and workers > 1:
        raise HarnessError("--workers and --cluster are two ways; give one of them")
    folder = cache.absolute() / "batches"
    with ExitStack() as until_done:
        if cluster:
            from harness.core.batches.futures import cluster as joined

            found = until_done.enter_context(joined(cluster, folder, _tell))
            until_done.enter_context(using(found))
        elif workers > 1:
            from harness.core.batches.processes import processes

            pool = until_done.enter_context(processes(workers, folder, _tell))
            until_done.enter_context(using(pool))
        yield


def _tell(said: str) -> None:
    err.print(f"note: {said}", markup=False)
