"""Runs a live comparison again and again, and kills it: ``python -m tests.shadow.killed FOLDER``.

Each round is a fork of this process, so that a round costs no imports. After each kill it says so
and waits for a line.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from pathlib import Path

from harness.core.engine import Answer
from harness.shadow import log
from harness.shadow.comparison import Shadowed
from harness.shadow.record import Observation
from tests.make.shadow_log import LIMITS, RECORDING, changed, comparison, here
from tests.shadow.arms import OTHER, Arm, given, hits

SEED = 20_261_122
ROUNDS = 50
WITHIN_S = 0.03
"""A round is killed at a random moment of so long after its first record."""
AT_ONCE = 5
"""One round in so many is killed without waiting for a record."""


def live(folder: Path) -> None:
    """Serve for ever; the candidate shows another order, nothing, an error or the same."""

    def act(text: str, _: int) -> Answer:
        which = int(text) % 4
        if not which:
            raise ValueError(text)
        return Answer(hits(("", "ba", "ab")[which - 1]), OTHER.fingerprint)

    limits = changed(LIMITS, queue=20)
    recording = changed(RECORDING, batch=8, rotate_mib=0.02)
    made = comparison(folder, here(given(Arm(OTHER, act))), limits=limits, recording=recording)
    shadowed = Shadowed(Arm(act=lambda *_: Arm().answer("ab")), made)
    parent = os.getppid()
    for number in itertools.count():
        shadowed.search(str(number), 10)
        if number % 40 == 0:
            time.sleep(0.002)
            if os.getppid() != parent:
                os._exit(1)


def written(folder: Path) -> int:
    """Count the bytes of all observations."""
    return sum(file.stat().st_size for file in log.files(folder, Observation))


def main(folder: Path) -> None:
    """Let rounds live and kill them."""
    rng = random.Random(SEED)
    for number in range(ROUNDS):
        before = written(folder)
        child = os.fork()
        if not child:
            live(folder)
        while number % AT_ONCE and written(folder) <= before:
            time.sleep(0.001)
        time.sleep(WITHIN_S * rng.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        sys.stdout.write("killed\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
