"""What a disk refuses names its file, whichever library was told."""

from __future__ import annotations

import errno
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines import registry
from harness.core.errors import BadFile, InvalidArm
from harness.core.files import (
    DISK,
    FULL,
    NO_ROOM,
    REMEDIES,
    naming,
    refusal,
    replacing,
    replacing_folder,
    write_text,
)
from harness.core.records import Document
from tests.make.room import little_room

REFUSED = "No space|too large|Input/output"
ROOM = 8_000
"""Bytes that a file may have: a library is refused as by a full disk."""


@pytest.fixture
def full() -> Iterator[None]:
    with little_room(ROOM):
        yield


def by_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE text (text)")
        db.execute("INSERT INTO text VALUES (zeroblob(100000))")
        db.commit()


WRITERS: dict[str, Callable[[Path], object]] = {
    "python": lambda path: path.write_bytes(bytes(100_000)),
    "sqlite": by_sqlite,
    "numpy": lambda path: np.save(path, np.zeros(100_000)),
    "pyarrow": lambda path: pq.write_table(pa.table({"a": np.random.rand(100_000)}), path),  # noqa: NPY002  any
}


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_for_which_there_is_no_room_is_named(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "file"
    path.write_text("as it was")
    with pytest.raises(OSError, match=REFUSED) as told, replacing(path) as beside:
        WRITERS[writer](beside)
    assert told.value.errno in DISK
    assert told.value.filename == str(path)
    assert path.read_text() == "as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def documents() -> list[Document]:
    return [Document(f"d{at}", "salt", f"water {at} boat " * 400, {}) for at in range(60)]


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("arm", ["fts5", "tantivy", "hash-hybrid", "mail-fts5", "code-sqlite"])
def test_an_index_for_which_there_is_no_room_is_named(tmp_path: Path, arm: str) -> None:
    engine = registry.load(arm, tmp_path / "cache")
    index = tmp_path / "index"
    with pytest.raises(OSError, match=REFUSED) as told, replacing_folder(index) as folder:
        engine.build(documents(), folder)
    assert told.value.errno in DISK
    assert told.value.filename == str(index)
    assert not index.exists()


def test_a_file_that_is_read_keeps_its_name(tmp_path: Path) -> None:
    there = tmp_path / "read"
    with pytest.raises(OSError, match=REFUSED) as told, naming(tmp_path / "written"):
        raise OSError(errno.EIO, "Input/output error", str(there))
    assert told.value.filename == str(there)
    with pytest.raises(BadFile, match="read: it cannot be read"), naming(tmp_path / "written"):
        raise BadFile(there, "it cannot be read", "Look") from OSError(errno.EIO, "no")


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="no"), naming(Path("file")):
        raise ValueError("no")
    with pytest.raises(FileNotFoundError), naming(Path("file")):
        Path("absent").read_text(encoding="utf-8")
    assert refusal(sqlite3.OperationalError("no such table")) is None
    assert refusal(ValueError("(os error 2)")) is None


def test_an_error_that_is_its_own_cause_comes_to_an_end() -> None:
    alone = ValueError("odd")
    alone.__cause__ = alone
    assert refusal(alone) is None


def test_sqlite_calls_a_full_disk_a_failing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = sqlite3.OperationalError("disk I/O error")
    failing.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with pytest.raises(OSError, match=REFUSED) as told, naming(tmp_path / "new" / "file"):
        raise failing
    assert told.value.errno == errno.EIO
    monkeypatch.setattr("harness.core.files.ROOM", sys.maxsize)
    with pytest.raises(OSError, match=REFUSED) as told, naming(tmp_path / "new" / "file"):
        raise failing
    assert told.value.errno == errno.ENOSPC


def test_each_answer_has_its_remedy() -> None:
    assert {REMEDIES[number] for number in FULL} == {NO_ROOM}
    assert "can be written" in REMEDIES[errno.EROFS]
    cause = ValueError("'No space left on device (os error 28)'")
    wrapped = InvalidArm("its index cannot be built")
    wrapped.__cause__ = cause
    found = refusal(wrapped)
    assert found is not None
    assert found.errno == errno.ENOSPC


@pytest.mark.usefixtures("full")
def test_a_text_for_which_there_is_no_room_names_its_lasting_place(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=REFUSED) as told:
        write_text(tmp_path / "text", "x" * 100_000)
    assert told.value.filename == str(tmp_path / "text")


def test_sqlite_does_not_say_why_it_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = sqlite3.OperationalError("unable to open database file")
    failing.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    with pytest.raises(sqlite3.OperationalError, match="unable"), naming(tmp_path / "file"):
        raise failing
    monkeypatch.setattr("harness.core.files.ROOM", sys.maxsize)
    with pytest.raises(OSError, match=REFUSED) as told, naming(tmp_path / "file"):
        raise failing
    assert told.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match=REFUSED), naming(tmp_path / "file"):
        raise InvalidArm("its index cannot be built") from failing


def test_a_library_that_sorts_on_a_full_disk_is_told_by_the_folder_in_which_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    index = tmp_path / "index"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    for room, place in ((index, tmp_path / "temporary"), (None, index)):
        monkeypatch.setattr("harness.core.files._has_room", lambda path, room=room: path == room)
        with pytest.raises(OSError, match=REFUSED) as told, naming(index):
            raise full
        assert told.value.filename == str(place)


@pytest.mark.parametrize("folder", [False, True])
def test_a_file_that_is_waited_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, folder: bool
) -> None:
    def refused(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", refused)
    replaced = replacing_folder if folder else replacing
    with (
        pytest.raises(OSError, match=REFUSED) as told,
        replaced(tmp_path / "kept", durable=True) as beside,
    ):
        (beside / "file" if folder else beside).write_text("x")
    assert told.value.filename == str(tmp_path / "kept")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_beside_which_nothing_can_be_locked_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, _: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("harness.core.files.claimed", refused)
    with pytest.raises(OSError, match=REFUSED) as told:
        write_text(tmp_path / "kept", "x")
    assert told.value.filename == str(tmp_path / "kept")
    assert list(tmp_path.iterdir()) == []
