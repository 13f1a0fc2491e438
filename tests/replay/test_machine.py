"""One line names the machine, and stays the same on it."""

from __future__ import annotations

import mmap
import os
import platform
import resource
import shutil
import signal
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path

import psutil
import pytest

from harness.core.errors import EvidenceError, HarnessError, InvalidArm
from harness.replay import machine as machine_fitness
from harness.replay import machine as machine_memory
from harness.replay.machine import (
    Advance,
    MachineCounters,
    Reference,
    between,
    free_bytes,
    in_fresh_process,
    load_of_core,
    look,
    machine,
    noise,
    pressure_s,
    processor,
    throttled_s,
    vector_flags,
)

# One line names the machine, and stays the same on it


def test_one_line_that_is_the_same_twice() -> None:
    assert machine() == machine()
    assert machine().isprintable()


def test_it_names_the_cores_the_system_and_the_python() -> None:
    line = machine()
    assert processor() in line
    assert platform.system() in line
    assert platform.machine() in line
    assert f"Python {platform.python_version()}" in line


def test_only_the_cores_that_may_be_used_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7}, raising=False)
    assert ", 3 cores, " in machine()


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ("processor : 0\nmodel name\t:  Some  CPU @ 3: GHz\nflags : x\n", "Some CPU @ 3: GHz"),
        ("processor : 0\n", "told by the platform"),
    ],
)
def test_the_processors_name(monkeypatch: pytest.MonkeyPatch, info: str, name: str) -> None:
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: info)
    monkeypatch.setattr(platform, "processor", lambda: "told by the platform")
    assert processor() == name


def test_a_system_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert processor() == "unknown processor"


# What the machine did beside: from counters of the test's own

BEFORE = MachineCounters(wall=10, own=1, busy=100, total=200, steal=5, throttled=2, pressure=3)


def after(**moved: float) -> MachineCounters:
    """Two processors, ten seconds later; this process worked for all of them."""
    usual = {"wall": 10, "own": 10, "busy": 10, "total": 20, "steal": 0, "throttled": 0}
    change = usual | {"pressure": 0} | moved
    return MachineCounters(
        *(getattr(BEFORE, name) + change[name] for name in MachineCounters._fields)
    )


def test_a_process_alone_sees_nobody() -> None:
    assert between(BEFORE, after()) == (0, 0, 0, 0)


def test_what_others_work_is_a_share_of_all_processors() -> None:
    assert between(BEFORE, after(busy=15)).others == 5 / 20
    assert between(BEFORE, after(busy=9.9)).others == 0


def test_what_a_hypervisor_takes_is_a_share_of_what_was_wanted() -> None:
    assert between(BEFORE, after(steal=10)).steal == 10 / 20


def test_what_a_quota_and_others_made_wait_are_shares_of_wall_time() -> None:
    found = between(BEFORE, after(throttled=1, pressure=4))
    assert (found.throttled, found.pressure) == (0.1, 0.4)
    assert between(BEFORE._replace(pressure=None), after()).pressure is None


def test_the_real_machine_has_shares() -> None:
    first = look()
    assert sum(range(200_000)) > 0
    found = between(first, look())
    assert 0 <= found.steal <= 1
    assert found.others >= 0
    assert found.throttled >= 0


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


def test_pressure_is_that_of_some_program(tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    path.write_text("some avg10=1.5 avg60=0 avg300=0 total=7000000\nfull avg10=0.00 total=1\n")
    assert pressure_s(path) == 7.0
    path.write_text("some\n")
    assert pressure_s(path) is None
    assert pressure_s(tmp_path / "absent") is None


# The reference work: the same every time, and timed by the clock it is given


def test_it_is_the_same_work_every_time() -> None:
    assert Reference().work() == Reference().work() > 0


def test_its_time_is_that_of_the_clock() -> None:
    readings = iter((5, 47))
    assert Reference(lambda: next(readings)).time_ns() == 42


# Memory is what the system says it is, and a folder is the sum of its files

FAT = 60_000_000


def test_what_is_held_is_resident_and_what_was_held_is_the_peak() -> None:
    before = machine_memory.resident_bytes()
    ballast = mmap.mmap(-1, FAT)  # pages of its own: an allocator may give what is resident already
    ballast.write(b"x" * FAT)
    held = machine_memory.resident_bytes()
    assert held > before + FAT // 2
    assert held == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    ballast.close()
    assert machine_memory.peak_bytes() > held - FAT // 10


def test_elsewhere_the_peak_is_that_of_getrusage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_memory, "STATUS", tmp_path / "absent")
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    assert machine_memory.peak_bytes() >= told * unit
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine_memory.peak_bytes() < told * unit + FAT


def test_a_status_without_a_peak_is_no_peak(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t  12 kB\n")
    monkeypatch.setattr(machine_memory, "STATUS", status)
    assert machine_memory.peak_bytes() == 12 * 1024
    status.write_text("Name:\tpython\n")
    assert machine_memory.peak_bytes() > 1_000_000


def test_a_folder_is_the_sum_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "deep" / "er" / "b").write_bytes(b"123")
    assert machine_memory.folder_bytes(tmp_path) == 8
    assert machine_memory.folder_bytes(tmp_path / "absent") == 0


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


# Whether a machine is fit: on files and clocks of the test's own

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024  as shutil has it


def clock_of(times: list[int]) -> Callable[[], int]:
    """Make a clock on which the pieces of work take ``times``."""
    readings = chain.from_iterable((start, start + took) for start, took in _starts(times))
    return lambda: next(readings)


def _starts(times: list[int]) -> list[tuple[int, int]]:
    return list(zip(accumulate([0, *times]), times, strict=False))


def test_a_steady_clock_shows_no_noise() -> None:
    found = noise(5, clock_of([7] * 10))
    assert found == (5, 1, 1, 1)


def test_each_arm_comes_first_as_often_as_second() -> None:
    """First and second place take 10 and 30; where one arm were always first, p50 would be 3."""
    assert noise(4, clock_of([10, 30] * 4)).p50 == 1


def test_what_only_one_arm_suffers_is_noise() -> None:
    order = [10, 30, 30, 10] * 3
    found = noise(6, clock_of(order))
    assert (found.p50, found.p95) == (3, 3)
    assert found.slowest == 1.5


def test_one_stall_is_the_slowest() -> None:
    found = noise(10, clock_of([10] * 19 + [90]))
    assert found.slowest == 9
    assert found.p50 == 1


@pytest.mark.parametrize("rounds", [0, 1])
def test_one_round_says_nothing(rounds: int) -> None:
    with pytest.raises(ValueError, match="say nothing"):
        noise(rounds)


def test_the_real_clock_runs() -> None:
    found = noise(2)
    assert found.p50 >= 1


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 f16c avx512ifma\n", ("avx2", "f16c")),
        ("Features\t: fp asimd i8mm\n", ("asimd", "i8mm")),
        ("model name : avx2\n", ()),
    ],
)
def test_what_the_processor_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, flags: tuple[str, ...]
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(machine_fitness, "CPUINFO", tmp_path / "cpuinfo")
    assert vector_flags() == flags


def test_a_system_that_tells_nothing_fitness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_fitness, "CPUINFO", tmp_path / "absent")
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert vector_flags() == ()
    assert load_of_core() is None


def test_the_load_is_of_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 1.0, 1.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert load_of_core() == 1.5


def test_room_is_that_of_the_nearest_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, len(path.parts)))
    assert free_bytes(tmp_path / "not" / "there") == len(tmp_path.resolve().parts)
