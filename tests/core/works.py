"""Works that other processes import."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from harness.core.errors import EvidenceError

FAULTY = 3


@dataclass(frozen=True)
class Squares:
    """Writes a square, and on its way does what it is told once, or each time."""

    marks: Path
    fault: str = ""
    once: bool = True

    def __call__(self, given: int, beside: Path) -> Iterator[int]:
        beside.write_text("half a part")
        if given == FAULTY and self.fault and not (self.once and self._seen()):
            if self.fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "slow":
                sleep(600)
            raise EvidenceError("three is wrong") if self.fault == "refused" else KeyError("three")
        beside.write_text(f"{given}: {given * given}")
        yield 1

    def _seen(self) -> bool:
        self.marks.mkdir(exist_ok=True)
        mark = self.marks / "seen"
        seen = mark.exists()
        mark.touch()
        return seen
