"""One line names the machine, and stays the same on it."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.errors import EvidenceError, HarnessError, InvalidArm
from harness.replay.machine import (
    Advance,
    MachineCounters,
    between,
    in_fresh_process,
    throttled_s,
)

# One line names the machine, and stays the same on it


# What the machine did beside: from counters of the test's own

BEFORE = MachineCounters(wall=10, own=1, busy=100, total=200, steal=5, throttled=2)


def after(**moved: float) -> MachineCounters:
    """Two processors, ten seconds later; this process worked for all of them."""
    usual = {"wall": 10, "own": 10, "busy": 10, "total": 20, "steal": 0, "throttled": 0}
    change = usual | moved
    return MachineCounters(
        *(getattr(BEFORE, name) + change[name] for name in MachineCounters._fields)
    )


def test_a_process_alone_sees_nobody() -> None:
    assert between(BEFORE, after()) == (0, 0, 0)


def test_what_others_work_is_a_share_of_all_processors() -> None:
    assert between(BEFORE, after(busy=15)).others == 5 / 20
    assert between(BEFORE, after(busy=9.9)).others == 0


def test_what_a_hypervisor_takes_is_a_share_of_what_was_wanted() -> None:
    assert between(BEFORE, after(steal=10)).steal == 10 / 20


def test_what_a_quota_made_wait_is_a_share_of_wall_time() -> None:
    assert between(BEFORE, after(throttled=1)).throttled == 0.1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("nr_throttled 3\nthrottled_usec 2500000\n", 2.5),
        ("nr_periods 9\nthrottled_time 2500000000\n", 2.5),
        ("usage_usec 17\n", 0.0),
    ],
)
def test_a_quota_is_told_in_both_versions(tmp_path: Path, text: str, seconds: float) -> None:
    (tmp_path / "cpu.stat").write_text(text)
    assert throttled_s((tmp_path / "absent", tmp_path / "cpu.stat")) == seconds


# The reference work: the same every time, and timed by the clock it is given


# Memory is what the system says it is, and a folder is the sum of its files


# Work in a process of its own: how far it is, how it fails, and how it dies


@dataclass(frozen=True)
class Noting:
    """Leaves the number of its process, and does what it is told to."""

    to: Path
    ends: str = "well"

    def __call__(self, advance: Advance) -> None:
        advance(2)
        self.to.write_text(f"{os.getpid()} {os.getppid()}")
        advance(3)
        if self.ends == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.ends == "ours":
            raise EvidenceError("nothing was measured; measure it")
        if self.ends == "theirs":
            raise ZeroDivisionError("of an engine")


@pytest.mark.usefixtures("anew")
@pytest.mark.slow
def test_it_is_another_process_and_tells_how_far_it_is(tmp_path: Path) -> None:
    done: list[int] = []
    in_fresh_process(Noting(tmp_path / "note"), done.append)
    own, parent = map(int, (tmp_path / "note").read_text().split())
    assert own != os.getpid() == parent
    assert done == [2, 3]


@pytest.mark.usefixtures("anew")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "error", "said"),
    [
        ("killed", InvalidArm, "its process died with exit code -9 before it was done"),
        ("ours", HarnessError, "nothing was measured; measure it"),
        ("theirs", InvalidArm, "ZeroDivisionError: of an engine"),
    ],
)
def test_what_goes_wrong_there_is_told_here(
    tmp_path: Path, ends: str, error: type[HarnessError], said: str
) -> None:
    with pytest.raises(error, match=said):
        in_fresh_process(Noting(tmp_path / "note", ends), lambda _: None)


# The collector looks again at what was set aside, but at what others had set aside before
