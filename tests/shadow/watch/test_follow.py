"""Logs that grow and rotate are read once, whole, and no further than they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.errors import BadFile, EvidenceError
from harness.shadow import log as shadow_log
from harness.shadow import summary
from harness.shadow.alarms import Bounds
from harness.shadow.log import Log
from harness.shadow.record import Degradation, Kind, Observation
from harness.shadow.summary import Follower, Summary, Tail
from tests.make.shadow.attempts import START, attempt, bounds, divergence


def log(folder: Path, rotate_bytes: int = 2000) -> Log:
    return Log(folder, rotate_bytes=rotate_bytes, sync_ns=10**12)


class Remembering(Summary):
    """Remembers in which order attempts came."""

    def __init__(self, found: Bounds) -> None:
        super().__init__(found)
        self.seen: list[int] = []

    def see(self, seen: Observation) -> None:
        self.seen.append(seen.number)
        super().see(seen)


def batch(folder: Log, first: int, count: int) -> None:
    folder.append([attempt(n) for n in range(first, first + count)], [], [])


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    tail = Tail(tmp_path, Observation)
    with log(tmp_path) as writer:
        assert list(tail.new()) == []
        read = []
        for first in range(1, 40, 3):
            batch(writer, first, 3)
            read.append([one.number for one in tail.new()])
        assert read == [[n, n + 1, n + 2] for n in range(1, 40, 3)]
        assert list(tail.new()) == []
    assert len(shadow_log.files(tmp_path, Observation)) > 3


def test_a_follower_sees_what_the_reader_of_the_whole_sees(tmp_path: Path) -> None:
    with log(tmp_path) as writer:
        follower, summary = Follower([tmp_path]), Summary(bounds())
        for first in range(1, 60, 7):
            batch(writer, first, 7)
            other = attempt(100 + first, outcome=Class.DISJOINT, jaccard=0.0)
            found = divergence(100 + first, Class.DISJOINT, ["a"], ["b"])
            note = Degradation(5, "w1", START, "candidate", Kind.CRASH, "it ended")
            writer.append([other], [found], [note])
            assert follower.feed(summary) == 8
        assert follower.feed(summary) == 0
    whole = shadow_log.read_logs(tmp_path)
    assert summary.tally == whole.tally
    assert summary.missing == whole.missing
    assert summary.degradations == {("candidate", Kind.CRASH): 9}
    assert [(t.times, t.text) for t in summary.diverging.traces()] == [(9, "a query")]


def test_a_log_whose_first_files_are_gone_is_read_from_the_next_one(tmp_path: Path) -> None:
    with log(tmp_path) as writer:
        for first in range(1, 40, 3):
            batch(writer, first, 3)
    shadow_log.path(tmp_path, Observation, 1).unlink()
    shadow_log.path(tmp_path, Observation, 3).unlink()
    whole, summary = shadow_log.read_logs(tmp_path), Summary(bounds())
    assert Follower([tmp_path]).feed(summary) == whole.tally.attempted > 0
    assert summary.missing == whole.missing > 0


def test_an_attempt_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with log(tmp_path) as writer:
        batch(writer, 1, 3)
        follower = Follower([tmp_path])
        follower.feed(Summary(bounds()))
        batch(writer, 2, 1)
    with pytest.raises(EvidenceError, match=r"attempt 2 .* twice"):
        follower.feed(Summary(bounds()))


def test_a_log_under_another_writers_name_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with log(tmp_path / name) as out:
            out.append([replace(attempt(n), writer=out.writer) for n in (1, 2)], [], [])
    with pytest.raises(EvidenceError, match="the same query at the same nanosecond"):
        Follower([tmp_path / "a", tmp_path / "b"]).feed(Summary(bounds()))


def test_a_torn_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    with log(tmp_path, 10**6) as writer:
        batch(writer, 1, 2)
    file = shadow_log.path(tmp_path, Observation, 1)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    tail = Tail(tmp_path, Observation)
    assert [one.number for one in tail.new()] == [1]
    file.write_bytes(whole)
    assert [one.number for one in tail.new()] == [2]


def test_what_is_appended_just_before_a_rotation_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log(tmp_path, 10**6) as writer:
        batch(writer, 1, 2)

        def slow(file: Path, start: int) -> Iterator[bytes]:
            """Read to the end; then more is written, and the next file is begun."""
            yield from list(shadow_log.whole_lines(file, start))
            if not shadow_log.path(tmp_path, Observation, 2).exists():
                batch(writer, 3, 2)
                shadow_log.path(tmp_path, Observation, 2).write_bytes(b"")

        monkeypatch.setattr(summary, "whole_lines", slow)
        tail = Tail(tmp_path, Observation)
        assert [one.number for one in tail.new()] == [1, 2]
        assert [one.number for one in tail.new()] == [3, 4]


def test_a_bad_line_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    with log(tmp_path, 10**6) as writer:
        batch(writer, 1, 2)
        tail = Tail(tmp_path, Observation)
        list(tail.new())
        batch(writer, 3, 1)
    file = shadow_log.path(tmp_path, Observation, 1)
    file.write_bytes(file.read_bytes() + b'{"format":1,"number":0}\n')
    with pytest.raises(BadFile, match="invalid observation") as raised:
        list(tail.new())
    assert (raised.value.path, raised.value.line) == (file, 4)


def test_logs_of_several_processes_are_one_in_the_order_of_time(tmp_path: Path) -> None:
    for name, numbers in (("a", range(1, 20, 2)), ("b", range(2, 20, 2))):
        with log(tmp_path / name) as writer:
            writer.append([attempt(n) for n in numbers], [], [])
    summary = Remembering(bounds())
    assert Follower([tmp_path / "a", tmp_path / "b"]).feed(summary) == 19
    assert summary.seen == list(range(1, 20))


def test_a_log_given_twice_and_a_log_that_is_none_are_refused(tmp_path: Path) -> None:
    log(tmp_path / "a").close()
    with pytest.raises(EvidenceError, match="one writer; give each log once"):
        Follower([tmp_path / "a", tmp_path / "a"])
    with pytest.raises(BadFile, match="its log is missing"):
        Follower([tmp_path])


def test_a_log_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    with log(tmp_path, 10**6) as writer:
        batch(writer, 1, 3)
    tail = Tail(tmp_path, Observation)
    list(tail.new())
    shadow_log.path(tmp_path, Observation, 1).write_bytes(b"")
    with pytest.raises(EvidenceError, match="was replaced while it was followed"):
        list(tail.new())
