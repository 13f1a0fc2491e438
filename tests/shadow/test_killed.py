"""kill -9 at fifty random moments: the log stays readable, adds up, and says nothing twice."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.errors import BadFile
from harness.shadow import log as shadow_log
from harness.shadow.log import LogContents, LogWriter
from harness.shadow.record import DIVERGING, Observation, dumped
from tests.make.shadow_records import degradation, observation
from tests.make.shadow_records import reordered as divergence
from tests.shadow.killed import ROUNDS
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
    command = [sys.executable, "-m", "tests.shadow.killed", str(folder)]
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
