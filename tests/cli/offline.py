"""``python -m tests.cli.offline ...``: the command line, killed at once if it opens a socket.

The system itself forbids it (seccomp), also to native code, to threads and to every process that
is started: whoever asks for an internet socket ends by SIGSYS. Sockets between processes of this
machine (AF_UNIX) are none.
"""

import ctypes
import os
import platform
import socket
import struct
import sys

SOCKET = {"x86_64": 41, "aarch64": 198}
"""Number of the call by processor."""
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16
"""Where the call's number and its first argument, the family, stand."""
KILL, ALLOW = 0x80000000, 0x7FFF0000
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2


def can_forbid() -> bool:
    """Tell whether the system can forbid sockets."""
    return sys.platform == "linux" and platform.machine() in SOCKET


def forbid() -> None:
    """Make this process, and all that it starts, end when it opens an internet socket."""
    steps = (
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 0, 4, SOCKET[platform.machine()]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_EQUAL, 1, 0, socket.AF_INET),
        (JUMP_IF_EQUAL, 0, 1, socket.AF_INET6),
        (RETURN, 0, 0, KILL),
        (RETURN, 0, 0, ALLOW),
    )
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps), ctypes.addressof(packed))
    system = ctypes.CDLL(None, use_errno=True)
    for words in ((NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SECCOMP, FILTER, program, 0, 0)):
        if system.prctl(*words):
            raise OSError(ctypes.get_errno(), "sockets cannot be forbidden")


if __name__ == "__main__":
    forbid()
    from harness.cli import main

    os.environ.pop("PYTHONPATH", None)
    main()
