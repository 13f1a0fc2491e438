"""The log goes on where it stopped, has one writer, and is read whole and once."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agreement import Class, ComparisonTally
from harness.core.errors import BadFile, EvidenceError
from harness.core.folders import NotOurs
from harness.shadow import log as shadow_log
from harness.shadow.log import CHUNK, FILE, Between, LogWriter, Once, Stream, read_engines, write
from harness.shadow.record import Degradation, Divergence, Observation, dumped
from tests.make.shadow_records import attempt, degradation, observation
from tests.make.shadow_records import reordered as divergence


def log(folder: Path, *, rotate_bytes: int = 1_000_000, sync_ns: int = 0) -> LogWriter:
    return LogWriter(folder, rotate_bytes=rotate_bytes, sync_ns=sync_ns)


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


@pytest.mark.parametrize("before", [dumped(observation(1)), b""])
def test_a_torn_line_longer_than_a_look_is_cut_off(tmp_path: Path, before: bytes) -> None:
    log(tmp_path).close()
    file = shadow_log.path(tmp_path, Observation, 1)
    file.write_bytes(before + b"x" * (3 * CHUNK))
    log(tmp_path).close()
    assert file.read_bytes() == before


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


def test_a_log_has_one_writer_who_keeps_its_name(tmp_path: Path) -> None:
    with log(tmp_path) as first, pytest.raises(EvidenceError, match="another process writes"):
        log(tmp_path)
    with log(tmp_path) as second:
        assert second.writer == first.writer


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
    out = LogWriter(tmp_path, rotate_bytes=1_000_000, sync_ns=100, clock=lambda: now[0])
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


def test_what_was_written_is_read_in_the_order_of_the_attempts(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(3), observation(1)], [divergence(3)], [degradation(1)])
        out.append([observation(2, Class.SHED)], [], [])
    found = shadow_log.read_logs(tmp_path)
    assert [one.number for one in found.observations] == [1, 2, 3]
    assert found.divergences == (divergence(3),)
    assert found.degradations == (degradation(1),)
    assert found.missing == 0
    assert found.tally == ComparisonTally(attempted=3, compared=2, errored=0, skipped=0, shed=1)


def test_a_divergence_without_its_observation_is_left_out_and_missing(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(1)], [divergence(1), divergence(2)], [])
    found = shadow_log.read_logs(tmp_path)
    assert [one.number for one in found.divergences] == [1]
    assert found.missing == 1


@pytest.mark.parametrize("kind", [Observation, Divergence, Degradation])
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, kind: type[object]) -> None:
    with log(tmp_path) as out:
        out.append([observation(1)], [divergence(1)], [degradation(1)])
    with shadow_log.path(tmp_path, kind, 1).open("ab") as file:
        file.write(b'{"format":1,"number":0}\n')
    with pytest.raises(BadFile, match=rf"{shadow_log.STEMS[kind]}\.000001\.jsonl:2: "):
        shadow_log.read_logs(tmp_path)


def test_a_folder_without_a_log_is_no_empty_log(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="its log is missing"):
        shadow_log.read_logs(tmp_path)
    log(tmp_path).close()
    assert shadow_log.read_logs(tmp_path).tally.attempted == 0


def test_logs_of_several_processes_are_one(tmp_path: Path) -> None:
    writers = []
    for at, name in enumerate(("a", "b", "c")):
        with log(tmp_path / name) as out:
            writers.append(out.writer)
            own = [observation(n, writer=out.writer, at=10 * n + at) for n in (1, 2)]
            diverged = [divergence(2, writer=out.writer, at=20 + at)] if at else []
            out.append(own, diverged, [])
    found = shadow_log.read_logs(tmp_path / "b", tmp_path / "c", tmp_path / "a")
    assert len(set(writers)) == 3
    assert [one.writer for one in found.observations] == writers * 2
    assert [one.writer for one in found.divergences] == writers[1:]
    assert found.tally.attempted == 6


def test_the_same_attempt_twice_is_refused_whatever_the_writers_are_called(tmp_path: Path) -> None:
    with log(tmp_path / "one") as out:
        out.append([observation(1), observation(1)], [], [])
    for name in ("a", "b"):
        with log(tmp_path / name) as out:
            out.append([observation(n, writer=out.writer) for n in (1, 2)], [], [])
    for names, says in (
        ("aa", "one writer; give each log once"),
        ("ab", "the same query at the same nanosecond; give each"),
        (("one",), "twice"),
    ):
        with pytest.raises(EvidenceError, match=says):
            shadow_log.read_logs(*(tmp_path / name for name in names))


def test_engines_are_named_where_all_logs_name_the_same(tmp_path: Path) -> None:
    one, other, silent = (tmp_path / name for name in "abc")
    for folder in (one, other, silent):
        folder.mkdir()
    write(one, Between("old", "new"))
    write(other, Between("old", "newer"))
    assert read_engines([one, silent]).said == "old → new"
    assert not read_engines([one, other]).said
    assert not read_engines([silent]).said


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"control": 1, "candidate": "b"}', "\udcff"])
def test_a_file_that_names_nothing_is_named_with_its_hint(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, errors="surrogateescape")
    with pytest.raises(BadFile, match=r"between\.json: does not name two engines.*Remove it"):
        read_engines([tmp_path])


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadFile, match=r"cannot be written"):
        write(tmp_path / "file", Between("old", "new"))


@given(st.lists(st.integers(1, 40)))
def test_a_number_is_taken_once_in_whatever_order(numbers: list[int]) -> None:
    once, known = Once(), set[int]()
    for number in numbers:
        with pytest.raises(EvidenceError) if number in known else nullcontext():
            once.take(attempt(number))
        known.add(number)
