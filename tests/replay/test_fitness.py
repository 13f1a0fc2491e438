"""Whether a machine is fit: on files and clocks of the test's own."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from itertools import accumulate, chain
from pathlib import Path

import pytest

from harness.replay import machine
from harness.replay.machine import free_bytes, load_of_core, noise, vector_flags

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
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    assert vector_flags() == flags


def test_a_system_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "absent")
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
