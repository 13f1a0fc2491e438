"""kill -9 at fifty random moments: the log stays readable, adds up, and says nothing twice."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.engine import Answer
from harness.core.errors import BadFile
from harness.shadow import log as shadow_log
from harness.shadow.comparison import Shadowed
from harness.shadow.log import LogContents, LogWriter
from harness.shadow.record import DIVERGING, Observation, dumped
from tests.make.shadow_log import LIMITS, RECORDING, changed, comparison, here
from tests.make.shadow_records import degradation, observation
from tests.make.shadow_records import reordered as divergence
from tests.shadow.arms import OTHER, Arm, given, hits
from tests.source import ROOT

pytestmark = pytest.mark.slow
NOTHING = LogContents((), (), (), 0)


def whole(folder: Path) -> LogContents:
    """Read a log that may not be there yet."""
    try:
        return shadow_log.read_logs(folder)
    except BadFile:
        assert not shadow_log.files(folder, Observation)
        return NOTHING


def tear(folder: Path, rng: random.Random) -> None:
    """Leave a part of a line at the end of one stream, as a write that was cut would."""
    records = (observation(99), divergence(99), degradation(99))
    record = rng.choice(records)
    if files := shadow_log.files(folder, type(record)):
        line = dumped(record)
        with files[-1].open("ab") as file:
            file.write(line[: rng.randrange(len(line))])


def test_a_killed_comparison_leaves_a_whole_log(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    command = [sys.executable, "-m", "tests.shadow.test_killed", str(folder)]
    before = NOTHING
    rng = random.Random(7)
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killer:
        assert killer.stdin is not None
        assert killer.stdout is not None
        for _ in range(ROUNDS):
            assert killer.stdout.readline() == "killed\n"
            now = whole(folder)
            diverged = {one.number for one in now.observations if one.outcome in DIVERGING}
            assert {one.number for one in now.divergences} == diverged
            assert set(before.observations) <= set(now.observations)
            assert {one.number for one in before.divergences} <= diverged
            tally = now.tally
            assert tally.attempted == len({one.number for one in now.observations})
            before = now
            tear(folder, rng)
            killer.stdin.write("\n")
            killer.stdin.flush()
    assert killer.returncode == 0
    outcomes = {one.outcome for one in before.observations}
    assert {Class.EXACT, Class.REORDER, Class.SHADOW_EMPTY, Class.ERROR, Class.SHED} <= outcomes
    assert len(shadow_log.files(folder, Observation)) > 2
    with LogWriter(folder, rotate_bytes=1 << 20, sync_ns=0) as log:
        assert log.number >= max(one.number for one in before.observations)
    assert shadow_log.read_logs(folder).observations == before.observations


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
    return sum(file.stat().st_size for file in shadow_log.files(folder, Observation))


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
