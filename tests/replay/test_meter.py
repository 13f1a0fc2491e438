"""What the system took, read from counters that the test turns by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.replay.race import IDLE, RUN_QUEUE, TASKS, Meter, Reading

FILES = Path("/proc/self/fd")


def say(tasks: Path, **waits_ns: int) -> None:
    """Write what Linux says of each thread: ran, waited, how often."""
    for thread, waited_ns in waits_ns.items():
        (tasks / thread).mkdir(exist_ok=True)
        (tasks / thread / "schedstat").write_text(f"999 {waited_ns} 7\n")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    say(tmp_path, t1=1_000, t2=50_000)
    return tmp_path


def test_the_waits_of_all_threads_are_summed(tasks: Path) -> None:
    meter = Meter(tasks)
    before = meter.read()
    say(tasks, t1=4_000, t2=50_500)
    assert meter.counts == RUN_QUEUE
    assert meter.taken(before, meter.read(), 10_000).waited_ns == 3_500
    meter.close()


def test_a_thread_that_began_or_ended_in_between_is_no_trouble(tasks: Path) -> None:
    meter = Meter(tasks)
    before = meter.read()
    say(tasks, t1=1_200, t3=30)
    (tasks / "t2" / "schedstat").unlink()
    (tasks / "t2").rmdir()
    assert meter.taken(before, meter.read(), 10_000).waited_ns == 230
    assert meter.read().waits_ns == {"t1": 1_200, "t3": 30}
    meter.close()


@pytest.mark.parametrize("damage", ["", "one\n", "1 x 3\n"])
def test_where_nothing_counts_waits_all_idle_time_stands_for_them(
    tmp_path: Path, damage: str
) -> None:
    (tmp_path / "t1").mkdir()
    (tmp_path / "t1" / "schedstat").write_text(damage)
    meter = Meter(tmp_path)
    assert meter.counts == IDLE
    assert Meter(tmp_path / "absent").counts == IDLE
    assert meter.taken(Reading({}, 100, 1), Reading({}, 400, 3), 1_000) == (700, 300, 2)
    assert meter.taken(Reading({}, 100, 1), Reading({}, 2_100, 1), 1_000).waited_ns == 0
    meter.close()


def test_files_are_closed_when_threads_end_and_at_the_end(tasks: Path) -> None:
    opened = len(list(FILES.iterdir())) if FILES.is_dir() else None
    meter = Meter(tasks)
    for _ in range(5):
        meter.read()
    if opened is not None:
        assert len(list(FILES.iterdir())) == opened + 2
    meter.close()
    if opened is not None:
        assert len(list(FILES.iterdir())) == opened


def test_on_this_system_something_is_counted() -> None:
    meter = Meter()
    before = meter.read()
    assert sum(range(200_000)) > 0
    taken = meter.taken(before, meter.read(), 1)
    assert taken.cpu_ns > 0
    assert taken.waited_ns >= 0
    if meter.counts == RUN_QUEUE:
        assert str(os.getpid()) in before.waits_ns
        assert TASKS.is_dir()
    meter.close()
