"""Servers that run for as long as their client, whose standard input to a keeper ends them.

A client that is killed closes it too, so no server is left behind. A keeper that is killed takes
the servers with it. Run as ``python keeper.py FOLDER UID gently|hard keep|remove``, this file is
the keeper; the first line of standard input is a JSON list of commands. It prints their process ids
on a line. It imports the standard library only.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""
PATIENCE_S = 10
SIGNALS = {
    "gently": (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL),
    "hard": (signal.SIGKILL, signal.SIGKILL),
}
"""How a server is stopped, in turn; the second is sent where the keeper is killed."""


@contextmanager
def running(
    folder: Path,
    commands: Sequence[Sequence[str]],
    *,
    uid: int,
    gently: bool = False,
    keep: bool = False,
) -> Iterator[tuple[int, ...]]:
    """Run servers while the block runs, logs beside them, and yield their process ids."""
    how = ["gently" if gently else "hard", "keep" if keep else "remove"]
    keeper = subprocess.Popen(  # noqa: S603  this project's own file
        [sys.executable, "-I", "-S", __file__, folder, str(uid), *how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    to, of = cast("IO[str]", keeper.stdin), cast("IO[str]", keeper.stdout)
    try:
        to.write(json.dumps(commands) + "\n")
        to.flush()
        yield tuple(map(int, of.readline().split()))
    finally:
        to.close()
        keeper.wait()
        of.close()


def log_of(folder: Path, at: int) -> str:
    """Read the last words of a server."""
    return (folder / f"log{at}").read_text("utf-8", errors="replace")[-2000:]


def has_ended(pid: int) -> bool:
    """Return whether a server is there no more, or waits for its keeper to notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return True
    return state.rpartition(")")[2].split()[0] == "Z"


def lent_to(uid: int) -> dict[str, Any]:
    """Name whom a process runs as, in the words of ``subprocess``: where we are root, ``uid``."""
    return {"user": uid, "group": uid, "extra_groups": []} if os.getuid() == 0 else {}


def main() -> int:
    """Start the servers, wait for the end of standard input, and stop them."""
    folder, uid, how = Path(sys.argv[1]), int(sys.argv[2]), SIGNALS[sys.argv[3]]
    libc = ctypes.CDLL(None, use_errno=True)
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for at, command in enumerate(json.loads(sys.stdin.readline())):
            with (folder / f"log{at}").open("wb") as log:
                servers.append(
                    subprocess.Popen(  # noqa: S603  commands of our own client
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        cwd=folder,
                        preexec_fn=lambda: libc.prctl(DIES_WITH_PARENT, how[1]),  # noqa: PLW1509  no thread here
                        **lent_to(uid),
                    )
                )
        sys.stdout.write(f"{' '.join(str(one.pid) for one in servers)}\n")
        sys.stdout.flush()
        sys.stdin.read()
        return 0
    finally:
        for one in servers:
            for sign in how:
                one.send_signal(sign)
                with suppress(subprocess.TimeoutExpired):
                    one.wait(PATIENCE_S)
                    break
        if sys.argv[4] != "keep":
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main())
