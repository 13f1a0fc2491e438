"""One line names the machine, and stays the same on it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from harness.replay.machine import machine, processor


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
