"""Signals that end a command as a Ctrl-C does."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

TOGETHER_S = 1.0
"""Signals that come within this time are one: a supervisor sends SIGTERM and SIGHUP at once."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def deafen() -> None:
    """Let signals change nothing any more: what has been told to end is on its way."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as a Ctrl-C does: what is half written is cleared away.

    What ``nohup`` has made deaf stays so, and what was told to end is deaf from then on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process, came = os.getpid(), -math.inf

    def interrupt(number: int, _: FrameType | None) -> None:
        nonlocal came
        if os.getpid() == process:
            if monotonic() - came < TOGETHER_S:
                return
            came = monotonic()
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        if number != signal.SIGINT and before[number] is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        if not all(signal.getsignal(number) is signal.SIG_IGN for number in ENDING):
            for number in ENDING:
                signal.signal(number, before[number])
