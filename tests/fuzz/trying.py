"""Try a reader on a file: it ends soon, in little memory, and says what a person can fix."""

import os
import resource
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

from harness.core.errors import HarnessError
from harness.core.printable import between
from harness.core.reading import Malformed
from tests.fuzz.readers import READERS

SECONDS, WAITING_S = 10, 60
"""Of a processor, and by the clock: a busy machine makes no reader slow, and one that waits uses no
processor."""
MEMORY_BYTES = 1 << 30
"""More than the process has when it begins."""
NAMES = {
    "mbox": "box",
    "arm": "arm.toml",
    "documents": "c.jsonl",
    "queries": "q.jsonl",
    "packed documents": "c.jsonl.gz",
}
PLANTED = "\x1b[31m\u202e\u2028"
"""An escape code, a change of direction and a line separator, of which no message may hold any."""
Input = bytes | Callable[[Path], object]
"""What a file holds, or what makes it."""
Given = TypeVar("Given", bound=Input)


def faults(name: str, inputs: Sequence[Given], *, refused: bool = False) -> list[tuple[Given, str]]:
    """Try the inputs in a process of their own; give those that broke the reader, and how.

    With ``refused``, an input that is read without a word is a fault too.
    """
    found: list[tuple[Given, str]] = []
    left = list(inputs)
    while left:
        done, fault = _in_a_process(name, left, refused=refused)
        if fault:
            found.append((left[done], fault))
        left = left[done + 1 :]
    return found


def fault_of(name: str, data: Input, *, refused: bool = False) -> str:
    """Say what is wrong with what a reader makes of a file; empty where nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAMES.get(name, "file")
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            data(path)
        try:
            READERS[name][0](path)
        except (HarnessError, Malformed) as told:
            said = str(told)
            if len(said) > 1_200 + len(folder):
                return f"it says {len(said)} characters"
            return "" if said.isprintable() else f"it says what is not printable: {said!r}"
        except (Exception, SystemExit) as broken:  # noqa: BLE001  that is what is looked for
            return between(f"{type(broken).__name__}: {broken}", 300)
    return "it was read" if refused else ""


def _in_a_process(name: str, inputs: Sequence[Input], *, refused: bool) -> tuple[int, str]:
    """Return how many inputs were fine, and what was wrong with the next; empty if all were."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        signal.signal(signal.SIGALRM, _late)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES,) * 2)
        for data in inputs:
            signal.alarm(WAITING_S)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            os.write(into, fault_of(name, data, refused=refused).encode() + b"\0")
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        said = pipe.read().split(b"\0")
    _, status = os.waitpid(child, 0)
    for done, fault in enumerate(said[:-1]):
        if fault:
            return done, fault.decode()
    code = os.waitstatus_to_exitcode(status)
    slow = {
        -signal.SIGPROF: f"it took more than {SECONDS} s",
        -signal.SIGALRM: f"it waited for more than {WAITING_S} s",
    }
    how = slow.get(code, f"it ended with {code}")
    return len(said) - 1, "" if code == 0 else how


def _late(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGALRM)
