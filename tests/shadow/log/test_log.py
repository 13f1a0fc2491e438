"""The log goes on where it stopped, whatever stopped it, and has one writer."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.core.folders import NotOurs
from harness.shadow import log as shadow_log
from harness.shadow.log import CHUNK, Log, Stream
from harness.shadow.record import Degradation, Divergence, Observation, dumped
from tests.make.shadow.records import degradation, divergence, observation


def log(folder: Path, *, rotate_bytes: int = 1_000_000, sync_ns: int = 0) -> Log:
    return Log(folder, rotate_bytes=rotate_bytes, sync_ns=sync_ns)


def numbers(folder: Path) -> list[int]:
    return [one.number for one in shadow_log.read_logs(folder).observations]


def test_a_stream_starts_a_new_file_when_one_is_full(tmp_path: Path) -> None:
    with log(tmp_path, rotate_bytes=1_000) as out:
        for number in range(1, 21):
            out.append([observation(number)], [], [])
    parts = shadow_log.files(tmp_path, Observation)
    assert len(parts) > 3
    assert all(part.stat().st_size < 1_000 + len(dumped(observation(20))) for part in parts)
    assert numbers(tmp_path) == list(range(1, 21))
    assert len(shadow_log.files(tmp_path, Divergence)) == 1
    with log(tmp_path, rotate_bytes=1_000) as out:
        assert out.number == 20
        out.append([observation(21)], [], [])
    assert numbers(tmp_path) == list(range(1, 22))


def test_parts_are_in_order_beyond_a_million(tmp_path: Path) -> None:
    for part in (999_999, 1_000_000):
        shadow_log.path(tmp_path, Observation, part).touch()
    assert [len(path.name) for path in shadow_log.files(tmp_path, Observation)] == [25, 26]


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 3 * len(dumped(observation(3)))))
def test_a_torn_line_is_cut_off_and_nothing_before_it(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    with log(folder) as out:
        out.append([observation(n) for n in (1, 2, 3)], [], [])
    file = shadow_log.path(folder, Observation, 1)
    whole = file.read_bytes()
    os.truncate(file, cut)
    with log(folder) as out:
        kept = file.read_bytes()
        assert whole.startswith(kept)
        assert kept.count(b"\n") == whole[:cut].count(b"\n")
        out.append([observation(out.number + 1)], [], [])
    assert numbers(folder) == list(range(1, whole[:cut].count(b"\n") + 2))


def test_a_torn_line_longer_than_a_look_is_cut_off(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(1)], [], [])
    file = shadow_log.path(tmp_path, Observation, 1)
    whole = file.read_bytes()
    file.write_bytes(whole + b"x" * (3 * CHUNK))
    log(tmp_path).close()
    assert file.read_bytes() == whole
    file.write_bytes(b"x" * (3 * CHUNK))
    log(tmp_path).close()
    assert file.read_bytes() == b""


@pytest.mark.parametrize("kind", [Observation, Divergence, Degradation])
def test_no_number_that_any_stream_knows_is_given_again(tmp_path: Path, kind: type[object]) -> None:
    with log(tmp_path) as out:
        out.append([observation(1)], [], [])
        out.append(
            [observation(7, served=70)] if kind is Observation else [],
            [divergence(7, served=70)] if kind is Divergence else [],
            [degradation(7)] if kind is Degradation else [],
        )
    with log(tmp_path) as out:
        assert out.number == 7
        assert out.served == (1 if kind is Degradation else 70)


def test_the_writer_keeps_its_name(tmp_path: Path) -> None:
    with log(tmp_path) as first:
        pass
    with log(tmp_path) as second:
        assert second.writer == first.writer


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    with log(tmp_path), pytest.raises(EvidenceError, match="another process writes"):
        log(tmp_path)
    log(tmp_path).close()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotOurs, match="is a file"):
        log(tmp_path / "file")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the disk be full: no file of this process may grow beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(1)], [], [])
        with files_of_at_most(1_000), pytest.raises(OSError, match="too large"):
            out.append([observation(n) for n in range(2, 9)], [], [])
        assert numbers(tmp_path) == [1]
        out.append([observation(9)], [], [])
    assert numbers(tmp_path) == [1, 9]
    assert shadow_log.read_logs(tmp_path).missing == 7


def test_the_disk_is_waited_for_as_often_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    now = [0]
    out = Log(tmp_path, rotate_bytes=1_000_000, sync_ns=100, clock=lambda: now[0])
    for number, at in enumerate((0, 99, 100, 150, 199, 200), start=1):
        now[0] = at
        before = len(waited)
        out.append([observation(number)], [], [])
        assert (len(waited) > before) == (at in {100, 200})
    before = len(waited)
    out.close()
    assert len(waited) - before == 3


def test_no_observation_is_written_before_its_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(Stream, "append", lambda _, lines: written.append(lines))
    with log(tmp_path) as out:
        out.append([observation(1)], [divergence(1)], [degradation(1)])
    assert written == [dumped(divergence(1)), dumped(degradation(1)), dumped(observation(1))]
