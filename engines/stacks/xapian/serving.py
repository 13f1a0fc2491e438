"""A server for each shard, on loopback, for one client and as long as this process lives.

``--one-shot`` serves one connection and ends with it, so no one else can connect, and a client that
is killed leaves no server. ``setpriv`` ends a server whose client died before it connected.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

from engines.stacks.xapian.debian import LEASH, SERVER, program
from harness.core.errors import IndexNotReady
from harness.core.printable import one_line

HOST = "127.0.0.1"
TRIES = 3
"""A port that was free may be taken before the server has it."""
IDLE_MS = 86_400_000
"""A day: a searcher that waits between two queries keeps its connection."""
READY = "Listening"
STOPPED_S = 10.0
QUOTED = 300


@contextmanager
def served(shards: Sequence[Path]) -> Iterator[tuple[int, ...]]:
    """Start a server for each shard, and give their ports.

    Raises:
        IndexNotReady: a server does not start; the message has what it said.
    """
    with ExitStack() as until:
        yield tuple(until.enter_context(_server(shard)) for shard in shards)


@contextmanager
def _server(shard: Path) -> Iterator[int]:
    said = ""
    for _ in range(TRIES):
        port = _free_port()
        process = subprocess.Popen(  # noqa: S603  Debian's programs
            [program(LEASH), "--pdeathsig", "TERM", program(SERVER), "--one-shot",
             "--interface", HOST, "--port", str(port), "--timeout", str(IDLE_MS), str(shard)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )  # fmt: skip
        try:
            said, ready = _heard(cast("IO[str]", process.stdout))
            if ready:
                yield port
                return
        finally:
            _stop(process)
    raise IndexNotReady(
        f"{shard}: {SERVER} does not start ({one_line(said, QUOTED)}). Build it again:"
        " harness index"
    )


def _heard(out: IO[str]) -> tuple[str, bool]:
    """Read until the server listens or ends; say what it said, and whether it listens."""
    said = ""
    for line in out:
        if line.startswith(READY):
            return said, True
        said += line
    return said, False


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOPPED_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    cast("IO[str]", process.stdout).close()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])
