"""Memory is what the system says it is, and a folder is the sum of its files."""

from __future__ import annotations

import mmap
import resource
import sys
from pathlib import Path

import psutil
import pytest

from harness.replay import machine

FAT = 60_000_000


def test_what_is_held_is_resident_and_what_was_held_is_the_peak() -> None:
    before = machine.resident_bytes()
    ballast = mmap.mmap(-1, FAT)  # pages of its own: an allocator may give what is resident already
    ballast.write(b"x" * FAT)
    held = machine.resident_bytes()
    assert held > before + FAT // 2
    assert held == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    ballast.close()
    assert machine.peak_bytes() > held - FAT // 10


def test_elsewhere_the_peak_is_that_of_getrusage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "STATUS", tmp_path / "absent")
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    assert machine.peak_bytes() >= told * unit
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine.peak_bytes() < told * unit + FAT


def test_a_status_without_a_peak_is_no_peak(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t  12 kB\n")
    monkeypatch.setattr(machine, "STATUS", status)
    assert machine.peak_bytes() == 12 * 1024
    status.write_text("Name:\tpython\n")
    assert machine.peak_bytes() > 1_000_000


def test_a_folder_is_the_sum_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "deep" / "er" / "b").write_bytes(b"123")
    assert machine.folder_bytes(tmp_path) == 8
    assert machine.folder_bytes(tmp_path / "absent") == 0
