"""``python -m tests.cli.offline ...``: the command line, killed at once if it opens a socket.

The system itself forbids it (seccomp), also to native code, to threads and to every process that
is started: whoever asks for an internet socket ends by SIGSYS. Sockets between processes of this
machine (AF_UNIX) are none.
"""

import ctypes
import os
import platform
import socket
import sys

SOCKET = {"x86_64": 41, "aarch64": 198}
"""Number of the call by processor."""
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16
"""Where the call's number and its first argument, the family, stand."""
KILL, ALLOW = 0x80000000, 0x7FFF0000
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction))]


def can_forbid() -> bool:
    """Tell whether the system can forbid sockets."""
    return sys.platform == "linux" and platform.machine() in SOCKET


def forbid() -> None:
    """Make this process, and all that it starts, end when it opens an internet socket."""
    steps = [
        _Instruction(LOAD, 0, 0, NUMBER),
        _Instruction(JUMP_IF_EQUAL, 0, 4, SOCKET[platform.machine()]),
        _Instruction(LOAD, 0, 0, FIRST_ARGUMENT),
        _Instruction(JUMP_IF_EQUAL, 1, 0, socket.AF_INET),
        _Instruction(JUMP_IF_EQUAL, 0, 1, socket.AF_INET6),
        _Instruction(RETURN, 0, 0, KILL),
        _Instruction(RETURN, 0, 0, ALLOW),
    ]
    program = _Program(len(steps), (_Instruction * len(steps))(*steps))
    system = ctypes.CDLL(None, use_errno=True)
    for words in ((NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SECCOMP, FILTER, ctypes.byref(program), 0, 0)):
        if system.prctl(*words):
            raise OSError(ctypes.get_errno(), "sockets cannot be forbidden")


if __name__ == "__main__":
    forbid()
    from harness.cli import main

    os.environ.pop("PYTHONPATH", None)
    main()
