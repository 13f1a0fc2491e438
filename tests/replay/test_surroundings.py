"""What the machine did beside: from counters of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.replay.machine import Look, between, look, pressure_s, throttled_s

BEFORE = Look(wall=10, own=1, busy=100, total=200, steal=5, throttled=2, pressure=3)


def after(**moved: float) -> Look:
    """Two processors, ten seconds later; this process worked for all of them."""
    usual = {"wall": 10, "own": 10, "busy": 10, "total": 20, "steal": 0, "throttled": 0}
    change = usual | {"pressure": 0} | moved
    return Look(*(getattr(BEFORE, name) + change[name] for name in Look._fields))


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
