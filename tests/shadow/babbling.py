"""A candidate that writes into its pipe what it likes, before it answers or instead."""

from __future__ import annotations

import os
import pickle
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.core.engine import Searcher
from tests.shadow.arms import Plain


class Runs:
    """What runs a command where it is unpickled."""

    def __init__(self, makes: str) -> None:
        self.makes = makes

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.makes,)


def frame(body: bytes, size: int | None = None) -> bytes:
    return struct.pack("!i", len(body) if size is None else size) + body


def said(how: str, makes: Path) -> bytes:
    """Give the bytes that a candidate writes."""
    return {
        "a pickle": frame(pickle.dumps(Runs(str(makes)))),
        "no JSON": frame(b"\x80\xff garbage"),
        "JSON of no kind": frame(b'{"number": 1, "side": {"status": "answered"}}'),
        "a deep list": frame(b"[" * 100_000),
        "a number that never ends": frame(b"9" * 10_000),
        "a key twice": frame(b'{"problem": "", "problem": ""}'),
        "a frame of less than nothing": frame(b"", -1),
        "a frame of two gigabytes": frame(b"x", (1 << 31) - 1),
        "half a frame": frame(b"x", 100),
        "a byte": b"\x00",
        "two frames": frame(b'{"problem": ""}') * 2,
    }[how]


@contextmanager
def babbling(how: str, makes: Path) -> Iterator[Searcher]:
    """Write into every socket that the process has: one of them leads to who asks."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  names of numbers
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                os.write(int(name), said(how, makes))
        except OSError:
            continue
    yield Plain()
