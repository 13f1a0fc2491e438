"""A log that is read: whole lines, each once, of one process or several."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.agreement import Class, Tally
from harness.core.errors import BadFile, EvidenceError
from harness.shadow import log as shadow_log
from harness.shadow.log import Log
from harness.shadow.record import Degradation, Divergence, Observation, dumped
from tests.make.shadow.records import degradation, divergence, observation


def log(folder: Path, *, rotate_bytes: int = 1_000_000) -> Log:
    return Log(folder, rotate_bytes=rotate_bytes, sync_ns=0)


def test_what_was_written_is_read_in_the_order_of_the_attempts(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(3), observation(1)], [divergence(3)], [degradation(1)])
        out.append([observation(2, Class.SHED)], [], [])
    found = shadow_log.read_logs(tmp_path)
    assert [one.number for one in found.observations] == [1, 2, 3]
    assert found.divergences == (divergence(3),)
    assert found.degradations == (degradation(1),)
    assert found.missing == 0
    assert found.tally == Tally(attempted=3, compared=2, errored=0, skipped=0, shed=1)


def test_a_line_without_its_end_is_not_read_yet(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(1)], [], [])
        half = dumped(observation(2))[:-1]
        with shadow_log.path(tmp_path, Observation, 1).open("ab") as file:
            file.write(half)
        assert len(shadow_log.read_logs(tmp_path).observations) == 1
        with shadow_log.path(tmp_path, Observation, 1).open("ab") as file:
            file.write(b"\n")
        assert len(shadow_log.read_logs(tmp_path).observations) == 2


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


def test_the_same_log_twice_is_refused(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(1)], [], [])
    with pytest.raises(EvidenceError, match=r"attempt 1 .* twice"):
        shadow_log.read_logs(tmp_path, tmp_path)


def test_an_attempt_that_was_written_twice_is_refused(tmp_path: Path) -> None:
    with log(tmp_path) as out:
        out.append([observation(1), observation(1)], [], [])
    with pytest.raises(EvidenceError, match="twice"):
        shadow_log.read_logs(tmp_path)


def test_the_same_log_under_another_writers_name_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with log(tmp_path / name) as out:
            out.append([observation(n, writer=out.writer) for n in (1, 2)], [], [])
    with pytest.raises(EvidenceError, match=r"the same query at the same nanosecond; give each"):
        shadow_log.read_logs(tmp_path / "a", tmp_path / "b")
