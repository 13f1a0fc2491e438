"""The reference work: the same every time, and timed by the clock it is given."""

from __future__ import annotations

from harness.replay.machine import Reference


def test_it_is_the_same_work_every_time() -> None:
    assert Reference().work() == Reference().work() > 0


def test_its_time_is_that_of_the_clock() -> None:
    readings = iter((5, 47))
    assert Reference(lambda: next(readings)).time_ns() == 42
