"""An index that follows a folder: what did not change is not read again.

A file counts as unchanged where its size and both its times are as they were, and as the same where
its content hash is. A program can set the one time back; the file system sets the other. Files are
taken in and given up in small transactions, so an update that is interrupted goes on where it
ended.
"""

from __future__ import annotations

import errno
import hashlib
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path, PurePosixPath

from engines.kept import listing
from engines.kept.contract import Fault, Reader, Updated
from engines.kept.listing import Listed, Seen
from harness.core.disk import naming
from harness.core.durable.locks import held
from harness.core.errors import BadFile, IndexNotReady
from harness.core.progress import progress
from harness.core.reading import Malformed, whole_below

FILE = "kept.db"
VERSION = "2"
"""Of the tables here."""
BATCH = 200
"""Files of a transaction at most."""
BATCH_S = 2.0
"""Seconds of a transaction, as soon as it has a file."""
SETTLED_NS = 2_000_000_000
"""A file that changed later than this before it was read may change again at the same time."""
UNSETTLED = -1
LINKED = frozenset({errno.ELOOP, errno.ENOTDIR})
"""What the system says where a link took the place of a file, or of a folder above it."""
NO_TABLE = sqlite3.SQLITE_ERROR
"""What SQLite says where the table that is read is not there."""
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE file (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL, sha256 BLOB NOT NULL, fault TEXT NOT NULL);
"""


def update(root: Path, place: Path, reader: Reader) -> Updated:
    """Bring the index in the folder ``place`` up to date with the folder ``root``.

    Raises:
        BadFile: ``root`` is not a folder, or ``place`` cannot be written.
        OSError: the disk of ``place`` is full or read-only; it names the index.
        Locked: another process updates it and does not come to an end.
    """
    found = listing.listed(root, reader.suffixes)
    place.mkdir(parents=True, exist_ok=True)
    with naming(place / FILE), held(place / FILE):
        db = _opened(place / FILE, root, reader)
        with closing(db):
            one = _Update(db, root, reader)
            done = one.follow(found)
            one.complete()
            return done


@contextmanager
def reading(place: Path) -> Iterator[sqlite3.Connection]:
    """Open the index to read; writers do not disturb it.

    Raises:
        IndexNotReady: there is none, or it is broken.
    """
    path = place / FILE
    try:
        where = f"{path.resolve().as_uri()}?mode=ro"
        db = sqlite3.connect(where, uri=True, check_same_thread=False)
        with closing(db):
            db.execute("SELECT count(*) FROM file").fetchone()
            yield db
    except sqlite3.DatabaseError as exc:
        raise IndexNotReady(f"{path}: {exc}. Remove {place}, and index the folder again") from exc


def generation(db: sqlite3.Connection) -> str:
    """Say which state the index is in; it changes with every file."""
    return _value(db, "generation")


def faults(db: sqlite3.Connection) -> tuple[Fault, ...]:
    """List the files that could not be read, by path."""
    rows = db.execute("SELECT path, fault FROM file WHERE fault != '' ORDER BY path")
    return tuple(Fault(*row) for row in rows)


def _opened(path: Path, root: Path, reader: Reader) -> sqlite3.Connection:
    """Open the index to write; one of another folder or reader, or a broken one, begins anew."""
    wanted = f"{VERSION} {reader.identity} {root.resolve()}"
    with ExitStack() as on_failure:
        db = on_failure.enter_context(closing(_connected(path)))
        if _identity(db) == wanted:
            on_failure.pop_all()
            return db
    for part in ("", "-wal", "-shm"):
        path.with_name(path.name + part).unlink(missing_ok=True)
    with ExitStack() as on_failure:
        db = on_failure.enter_context(closing(_connected(path)))
        _identity(db)
        db.executescript(f"BEGIN; {TABLES} {reader.tables}")
        db.execute("INSERT INTO about VALUES ('generation', '0')")
        db.execute("INSERT INTO about VALUES ('identity', ?)", (wanted,))
        db.execute("COMMIT")
        on_failure.pop_all()
        return db


def _identity(db: sqlite3.Connection) -> str:
    """Set an index up to be written, and say what it is of; empty where it is new or broken.

    Raises:
        sqlite3.OperationalError: it cannot be read now, as where its disk is full. It may be whole.
    """
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        return _value(db, "identity")
    except sqlite3.DatabaseError as exc:
        if isinstance(exc, sqlite3.OperationalError) and exc.sqlite_errorcode != NO_TABLE:
            raise
        return ""


def _value(db: sqlite3.Connection, name: str) -> str:
    row = db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def _bump(db: sqlite3.Connection) -> None:
    db.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")


def _connected(path: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path, timeout=60, isolation_level=None)
    except sqlite3.Error as exc:
        raise BadFile(path, f"cannot be written ({exc})", "Name another place") from exc


class _Taken(Enum):
    """What became of a file that was looked at."""

    SAME = auto()
    """Its content is as it was."""
    READ = auto()
    REFUSED = auto()
    """It cannot be read."""


@dataclass(frozen=True, slots=True)
class _Update:
    """One update of an open index."""

    db: sqlite3.Connection
    root: Path
    reader: Reader

    def follow(self, listed: Listed) -> Updated:
        """Give up what is gone, and take in what is new or other than it was."""
        rows = self.db.execute("SELECT path, size, mtime_ns, ctime_ns, sha256 FROM file")
        known: dict[str, tuple[int, int, int, bytes]] = {row[0]: row[1:] for row in rows}
        gone = sorted(known.keys() - {one.path for one in listed.files})
        changed = [one for one in listed.files if known.get(one.path, ())[:3] != one[1:]]
        taken: Counter[_Taken] = Counter()
        if gone or changed:
            self._follow(gone, changed, known, taken)
        refused = faults(self.db)
        return Updated(
            read=taken[_Taken.READ],
            removed=len(gone),
            unchanged=len(listed.files) - taken[_Taken.READ] - len(refused),
            faults=tuple(sorted(refused + listed.unnamed)),
            refused=taken[_Taken.REFUSED],
        )

    def _follow(
        self,
        gone: Sequence[str],
        changed: Sequence[Seen],
        known: Mapping[str, tuple[int, int, int, bytes]],
        taken: Counter[_Taken],
    ) -> None:
        """Write what changed, in small transactions, and count it in ``taken``."""
        self.db.execute("BEGIN IMMEDIATE")
        for path in gone:
            self.reader.drop(self.db, path)
            self.db.execute("DELETE FROM file WHERE path = ?", (path,))
        since, count = time.monotonic(), 0
        with progress("reading", len(changed)) as advance:
            for one in changed:
                taken[self._take(one, known.get(one.path, (0, 0, 0, b""))[3])] += 1
                count += 1
                if count == BATCH or time.monotonic() - since > BATCH_S:
                    self._commit()
                    self.db.execute("BEGIN IMMEDIATE")
                    since, count = time.monotonic(), 0
                advance(1)
        self._commit(other=bool(gone or taken[_Taken.READ] or taken[_Taken.REFUSED]))

    def complete(self) -> None:
        """Make what the models of the reader make, unless they did for this state."""
        name = f"complete {self.reader.models}"
        if not self.reader.models or _value(self.db, name) == _value(self.db, "generation"):
            return
        self.db.execute("BEGIN IMMEDIATE")
        self.reader.complete(self.db)
        _bump(self.db)
        state = _value(self.db, "generation")
        self.db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, state))
        self.db.execute("COMMIT")

    def _commit(self, *, other: bool = True) -> None:
        if other:
            _bump(self.db)
        self.db.execute("COMMIT")

    def _take(self, one: Seen, known: bytes) -> _Taken:
        """Read a file, and tell what became of it."""
        settled = time.time_ns() - one.mtime_ns > SETTLED_NS
        mtime = one.mtime_ns if settled else UNSETTLED
        data, fault = _bytes(self.root, one.path, self.reader.biggest)
        digest = hashlib.sha256(data + fault.encode()).digest()
        if known == digest:
            row = (one.size, mtime, one.ctime_ns, one.path)
            set_to = "size = ?, mtime_ns = ?, ctime_ns = ?"
            self.db.execute(f"UPDATE file SET {set_to} WHERE path = ?", row)  # noqa: S608  as above
            return _Taken.SAME
        self.reader.drop(self.db, one.path)
        self.db.execute("SAVEPOINT file")
        try:
            if not fault:
                self.reader.put(self.db, one.path, data)
        except BadFile as exc:
            self.db.execute("ROLLBACK TO file")
            fault = f"{exc.problem}. {exc.hint}"
        except sqlite3.OperationalError:
            raise  # of the disk of the index, not of the file
        except Exception as exc:  # noqa: BLE001  a file may break its reader in any way
            self.db.execute("ROLLBACK TO file")
            fault = f"cannot be read ({type(exc).__name__}). Save it anew, or leave it out"
        self.db.execute("RELEASE file")
        new = (one.path, one.size, mtime, one.ctime_ns, digest, fault)
        self.db.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)", new)
        return _Taken.REFUSED if fault else _Taken.READ


def _bytes(root: Path, path: str, most: int) -> tuple[bytes, str]:
    """Read a file; where that cannot be, nothing and the reason."""
    try:
        return whole_below(root, PurePosixPath(path), most=most), ""
    except FileNotFoundError:
        return b"", "was removed while the folder was read. Index the folder again"
    except OSError as exc:
        if exc.errno in LINKED:
            return b"", "became a link while the folder was read. Put a file in its place"
        return b"", f"cannot be opened ({exc.strerror}). Look at its permissions"
    except Malformed as exc:
        return b"", f"{exc}. Leave it out, or split it"
