"""The tracked record stays as it is while DVC works on this machine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.pipeline.dvc import LOCK, SAVED, local, local_lock


def test_the_tracked_record_is_put_back_and_the_local_one_kept(tmp_path: Path) -> None:
    tracked = tmp_path / LOCK
    tracked.write_text("recorded")
    with local_lock(tmp_path):
        assert tracked.read_text() == "recorded"
        tracked.write_text("made here")
    assert tracked.read_text() == "recorded"
    with local_lock(tmp_path):
        assert tracked.read_text() == "made here"
    assert (tracked.read_text(), local(tmp_path).read_text()) == ("recorded", "made here")
    assert not (tmp_path / SAVED).exists()


def test_it_is_put_back_where_the_pipeline_fails(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("recorded")

    def half() -> None:
        with local_lock(tmp_path):
            (tmp_path / LOCK).write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert (tmp_path / LOCK).read_text() == "recorded"


def test_a_killed_run_is_put_right_by_the_next(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("half")
    (tmp_path / SAVED).parent.mkdir(parents=True)
    (tmp_path / SAVED).write_text("recorded")
    with local_lock(tmp_path):
        pass
    assert (tmp_path / LOCK).read_text() == "recorded"


def test_a_project_without_a_record_gets_its_own(tmp_path: Path) -> None:
    with local_lock(tmp_path):
        (tmp_path / LOCK).write_text("made here")
    assert local(tmp_path).read_text() == "made here"
    assert (tmp_path / LOCK).read_text() == "made here"
