"""Run servers for as long as somebody holds this process's standard input open.

A client that is killed closes it too, so no server is left behind. A keeper that is killed takes
the servers with it. Started as ``python keeper.py FOLDER``; the first line of standard input is a
JSON list of commands. It prints their process ids on a line, and removes the folder at the end.
It imports the standard library only.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""


def main() -> int:
    """Start the servers, wait for the end of standard input, and stop them."""
    folder = Path(sys.argv[1])
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
                        preexec_fn=lambda: libc.prctl(DIES_WITH_PARENT, signal.SIGKILL),  # noqa: PLW1509  no thread here
                    )
                )
        sys.stdout.write(f"{' '.join(str(one.pid) for one in servers)}\n")
        sys.stdout.flush()
        sys.stdin.read()
        return 0
    finally:
        for one in servers:
            one.kill()
        for one in servers:
            one.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main())
