"""A change of several files is made whole or not at all, wherever it is cut off."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from harness.core import digest, folders
from harness.core.errors import BadFile
from harness.core.folders import changing, cut_off, journal_of
from tests.make.killed import killed

NAMES = ("thing", "beside", "new/third")


def state(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def change(folder: Path, value: str) -> str:
    with changing(folder / "thing", within=[folder], what=f"set to {value}") as made:
        for name in NAMES:
            made.write(folder / name, value)
    return made.resumed


def interrupted(folder: Path, *, committed: bool) -> None:
    with changing(folder / "thing", within=[folder], what="set") as made:
        made.write(folder / "thing", "new")
        if committed:
            made.commit()
        raise KeyboardInterrupt


def dies_at(folder: Path, step: int, value: str = "new") -> None:
    """Change the three files in a process that is killed after so many durable steps."""
    killed(f"""
        from harness.core import files
        from harness.core import folders as journal
        step = {step}
        def counted(call):
            def run(*args, **more):
                global step
                if not step:
                    os.kill(os.getpid(), signal.SIGKILL)
                step -= 1
                return call(*args, **more)
            return run
        journal.write_json = counted(journal.write_json)
        journal.write_text = counted(journal.write_text)
        journal.remove = counted(journal.remove)
        folder = Path({str(folder)!r})
        with journal.changing(folder / "thing", within=[folder], what="set to new") as made:
            for name in {NAMES}:
                made.write(folder / name, {value!r})
        os.kill(os.getpid(), signal.SIGKILL)
    """)


def test_all_files_change_and_nothing_is_left(tmp_path: Path) -> None:
    assert change(tmp_path, "old") == ""
    assert change(tmp_path, "new") == ""
    assert state(tmp_path) == dict.fromkeys(NAMES, "new")
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_an_exception_changes_nothing(tmp_path: Path) -> None:
    change(tmp_path, "old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, committed=False)
    assert state(tmp_path) == dict.fromkeys(NAMES, "old")
    assert not cut_off(tmp_path / "thing")


@pytest.mark.parametrize("step", range(6))
def test_a_change_that_was_cut_off_is_completed_or_was_never_made(
    tmp_path: Path, step: int
) -> None:
    change(tmp_path, "old")
    dies_at(tmp_path, step)
    begun = 1 <= step < 5
    assert cut_off(tmp_path / "thing") == begun
    with changing(tmp_path / "thing", within=[tmp_path], what="look") as made:
        assert made.resumed == ("set to new" if begun else "")
        assert state(tmp_path) == dict.fromkeys(NAMES, "new" if step else "old")
    assert not cut_off(tmp_path / "thing")
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_the_journal_is_on_the_disk_before_the_first_file_and_each_file_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after the first file must find the journal, by its name."""
    waited: list[str] = []
    wait = os.fsync

    def fsync(opened: int) -> None:
        waited.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        wait(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    with changing(tmp_path / "thing", within=[tmp_path], what="set") as made:
        made.write(tmp_path / "thing", "new")
    folder = tmp_path.name
    assert waited == [".thing.journal", folder, "thing", folder, folder]


def test_what_was_told_and_not_closed_is_known_to_the_next(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, committed=True)
    assert state(tmp_path) == {"thing": "new"}
    assert change(tmp_path, "newer") == "set"
    assert state(tmp_path) == dict.fromkeys(NAMES, "newer")


def test_a_file_that_somebody_changed_since_is_not_written_over(tmp_path: Path) -> None:
    change(tmp_path, "old")
    dies_at(tmp_path, 2)
    (tmp_path / "beside").write_text("by hand")
    with pytest.raises(BadFile, match="beside was changed since"):
        change(tmp_path, "newer")
    assert state(tmp_path) == {"thing": "new", "beside": "by hand", "new/third": "old"}


def test_a_file_outside_is_refused_also_where_a_journal_names_it(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    with (
        pytest.raises(ValueError, match="none of the folders"),
        changing(inside / "thing", within=[inside], what="set") as made,
    ):
        made.write(inside / ".." / "outside", "new")
    planted = {"what": "", "files": [["../outside", "", "planted"]]}
    journal_of(inside / "thing").write_text(json.dumps(planted))
    with pytest.raises(BadFile, match="not a journal"):
        change(inside, "new")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"what": 1, "files": [["a"]]}', "\x00", "nul"])
def test_what_is_no_journal_is_named(tmp_path: Path, text: str) -> None:
    journal_of(tmp_path / "thing").write_text(text)
    with pytest.raises(BadFile, match="not a journal of a change"):
        change(tmp_path, "new")


def test_a_change_of_nothing_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "write_json", None)
    with changing(tmp_path / "thing", within=[tmp_path], what="nothing"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_writer_left_is_swept_also_where_nothing_is_written(tmp_path: Path) -> None:
    left = tmp_path / "other" / ".0123456789abcdef.partial"
    left.mkdir(parents=True)
    (left / ".lock").touch()
    with changing(tmp_path / "thing", within=[left.parent, tmp_path / "none"], what="set"):
        pass
    assert list(left.parent.iterdir()) == []


@pytest.mark.parametrize("stands", [True, False])
def test_a_journal_for_a_folder_that_does_not_stand_is_forgotten(
    tmp_path: Path, *, stands: bool
) -> None:
    """A disk that is full before the folder has its place leaves nothing; after it, the rest."""
    proof = tmp_path / "folder" / "proof"

    def full() -> None:
        with changing(tmp_path / "folder", within=[tmp_path], what="import") as made:
            made.write(tmp_path / "beside", "new")
            made.prepare(proof, digest.of_bytes(b"proof"))
            if stands:
                proof.parent.mkdir()
                proof.write_text("proof")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        full()
    assert cut_off(tmp_path / "folder") == stands
    with changing(tmp_path / "folder", within=[tmp_path], what="look") as made:
        assert made.resumed == ("import" if stands else "")
    assert (tmp_path / "beside").exists() == stands
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]
