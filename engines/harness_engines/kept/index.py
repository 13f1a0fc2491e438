"""An index that follows a folder: what did not change is not read again."""

import errno
import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from sqlite3 import Connection
from threading import Lock
from typing import Any, NamedTuple

from harness.core.errors import BadFile, IndexNotReady
from harness.core.files import held, make_private, naming
from harness.core.progress import progress
from harness.core.reading import Malformed, whole_below
from harness_engines.kept.listing import FileStat, FolderListing, UnreadFile, check, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """What a stack makes of files; it keeps that in tables of its own."""

    suffixes: frozenset[str]
    """Endings of the files that it reads, with their dot, in lower case."""
    biggest: int
    """Bytes of a file; a bigger one is refused by name."""
    identity: str
    """All that its tables depend on beside the files; another one begins anew."""
    tables: str
    """SQL that makes its tables."""
    put: Callable[[Connection, str, bytes], str]
    """Takes a file in; returns what of it cannot be found, empty where all can."""
    drop: Callable[[Connection, str], object]
    """Gives up what was made of a file."""
    opened: Callable[[Connection], Any]
    """Makes what answers from an index, by its method ``answer``."""
    models: str = ""
    """What ``complete`` depends on: the models that are there; empty without any."""
    complete: Callable[[Connection], None] | None = None
    """Makes what ``models`` have not made once all files are in, such as vectors."""


class Updated(NamedTuple):
    """What an update did; no file is counted twice in what is read, unchanged or in ``faults``."""

    read: int
    removed: int
    unchanged: int
    faults: tuple[UnreadFile, ...]
    """Of all files of the folder, those that cannot be found, by path."""
    refused: int = 0
    """Those among them that this update looked at."""
    notes: tuple[UnreadFile, ...] = ()
    """What cannot be found of files that are found."""
    left_out: tuple[str, ...] = ()
    """Output of tools, copies and what is ignored; folders end with a slash."""

    @property
    def is_change(self) -> bool:
        """Return whether the index changed."""
        return bool(self.read or self.removed or self.refused)


def unread(done: Updated | None, said: Callable[[str], str] = str) -> Mapping[str, Any]:
    """Name files of which all or a part cannot be found; nothing where there are none."""
    named = (*done.faults, *done.notes)[:10] if done is not None else ()
    files = [{"path": one.path, "why": said(one.why)} for one in named]
    return {"unread": files} if files else {}


def utf8(
    path: str | Path, data: bytes, encoding: str = "utf-8-sig", remedy: str = "Save it as UTF-8"
) -> str:
    """Decode the text of a file, or raise BadFile with the line that cannot be."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise BadFile(path, f"is not UTF-8 ({exc.reason})", remedy, line) from exc


FILE = "kept.db"
VERSION = "3"
"""Of the tables here."""
BATCH = 200
"""Files of a transaction at most."""
BATCH_S = 2.0
"""Seconds of a transaction, as soon as it has a file."""
SETTLED_NS = 2_000_000_000
"""A file that changed later than this before it was read may change again at the same time."""
LINKED = frozenset({errno.ELOOP, errno.ENOTDIR})
"""What the system says where a link took the place of a file, or of a folder above it."""
NO_TABLE = sqlite3.SQLITE_ERROR
"""What SQLite says where the table that is read is not there."""
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE file (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL, sha256 BLOB NOT NULL, fault TEXT NOT NULL,
  note TEXT NOT NULL);
"""


def update(
    root: Path, place: Path, reader: FileReader, *, everything: bool | None = None
) -> Updated:
    """Bring the index in the folder ``place`` up to date with the folder ``root``.

    ``everything`` says whether that is all of ``root``, as ``listed`` has it; None leaves
    it as the index has it.
    """
    check(root)
    make_private(place)
    with naming(place / FILE), held(place / FILE), _written(place / FILE, root, reader) as db:
        if everything is not None:
            _set(db, "everything", "yes" if everything else "")
        found = listed(root, reader.suffixes, everything=bool(_value(db, "everything")))
        done = _follow(db, root, reader, found)
        name, state = f"complete {reader.models}", _value(db, "generation")
        if reader.complete is not None and reader.models and _value(db, name) != state:
            db.execute("BEGIN IMMEDIATE")
            reader.complete(db)
            db.execute(BUMP)
            _set(db, name, _value(db, "generation"))
            db.execute("COMMIT")
        return done


@contextmanager
def reading(place: Path) -> Iterator[Connection]:
    """Open the index to read; writers do not disturb it."""
    remedy = f"Remove {place}, and index the folder again"
    with opened(place, "mode=ro", remedy) as db:
        db.execute("SELECT count(*) FROM file").fetchone()
        yield db


@contextmanager
def built(index: Path, tables: str) -> Iterator[Connection]:
    """Make the tables of an arm's index, which is written once."""
    with closing(sqlite3.connect(index / FILE)) as db, db:
        db.execute("PRAGMA journal_mode = OFF")
        db.executescript(tables)
        yield db


@contextmanager
def opened(
    index: Path,
    how: str = "mode=ro&immutable=1",
    remedy: str = "Build it again: harness stage index",
) -> Iterator[Connection]:
    """Open what was ``built``, to read it."""
    path = index / FILE
    try:
        where = f"{path.resolve().as_uri()}?{how}"
        with closing(sqlite3.connect(where, uri=True, check_same_thread=False)) as db:
            yield db
    except sqlite3.DatabaseError as exc:
        raise IndexNotReady(f"{path}: {exc}. {remedy}") from exc


@contextmanager
def _written(path: Path, root: Path, reader: FileReader) -> Iterator[Connection]:
    """Open the index to write; one of another folder or reader, or a broken one, begins anew."""
    wanted = f"{VERSION} {reader.identity} {root.resolve()}"
    for is_new in (False, True):
        try:
            connected = sqlite3.connect(path, timeout=60, isolation_level=None)
        except sqlite3.Error as exc:
            raise BadFile(path, f"cannot be written ({exc})", "Name another place") from exc
        with closing(connected) as db:
            found = _identity(db)
            if is_new:
                path.chmod(0o600)
                db.executescript(f"BEGIN; {TABLES} {reader.tables}")
                _set(db, "generation", "0")
                _set(db, "identity", wanted)
                db.execute("COMMIT")
            if is_new or found == wanted:
                yield db
                return
        for part in ("", "-wal", "-shm"):
            path.with_name(path.name + part).unlink(missing_ok=True)


def _identity(db: Connection) -> str:
    """Set an index up to be written, and return what it is of; empty where it is new or broken."""
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        return _value(db, "identity")
    except sqlite3.DatabaseError as exc:
        if isinstance(exc, sqlite3.OperationalError) and exc.sqlite_errorcode != NO_TABLE:
            raise
        return ""


def _value(db: Connection, name: str) -> str:
    row = db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def _set(db: Connection, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))


BUMP = "UPDATE about SET value = value + 1 WHERE name = 'generation'"


def _follow(db: Connection, root: Path, reader: FileReader, listed: FolderListing) -> Updated:
    """Drop what is gone, and take in what is new or other than it was."""
    rows = db.execute("SELECT path, size, mtime_ns, ctime_ns, sha256 FROM file")
    known: dict[str, tuple[Any, ...]] = {row[0]: row[1:] for row in rows}
    gone = sorted(known.keys() - {one.path for one in listed.files})
    changed = [one for one in listed.files if known.get(one.path, ())[:3] != one[1:]]
    read = refused = 0
    if gone or changed:
        db.execute("BEGIN IMMEDIATE")
        for path in gone:
            reader.drop(db, path)
            db.execute("DELETE FROM file WHERE path = ?", (path,))
        since, count = time.monotonic(), 0
        with progress("reading", len(changed)) as advance:
            for one in changed:
                taken = _take(db, root, reader, one, known.get(one.path, (b"",))[-1])
                read, refused = read + (taken is True), refused + (taken is False)
                count += 1
                if count == BATCH or time.monotonic() - since > BATCH_S:
                    db.execute(BUMP)
                    db.execute("COMMIT")
                    db.execute("BEGIN IMMEDIATE")
                    since, count = time.monotonic(), 0
                advance(1)
        if gone or read or refused:
            db.execute(BUMP)
        db.execute("COMMIT")
    asked = "SELECT path, fault, note FROM file WHERE fault != '' OR note != '' ORDER BY path"
    told = db.execute(asked).fetchall()
    unreadable = [UnreadFile(path, fault) for path, fault, _ in told if fault]
    return Updated(
        read=read,
        removed=len(gone),
        unchanged=len(listed.files) - read - len(unreadable),
        faults=tuple(sorted([*unreadable, *listed.unnamed])),
        refused=refused,
        notes=tuple(UnreadFile(path, note) for path, _, note in told if note),
        left_out=listed.left_out,
    )


def _take(
    db: Connection, root: Path, reader: FileReader, one: FileStat, known: bytes
) -> bool | None:
    """Read a file; return whether it can be read, and None where it is as it was."""
    settled = time.time_ns() - one.mtime_ns > SETTLED_NS
    mtime = one.mtime_ns if settled else -1
    data, fault = _bytes(root, one.path, reader.biggest)
    digest = hashlib.sha256(data + fault.encode()).digest()
    if known == digest:
        row = (one.size, mtime, one.ctime_ns, one.path)
        db.execute("UPDATE file SET size = ?, mtime_ns = ?, ctime_ns = ? WHERE path = ?", row)
        return None
    reader.drop(db, one.path)
    db.execute("SAVEPOINT file")
    note = ""
    try:
        if not fault:
            note = reader.put(db, one.path, data)
    except BadFile as exc:
        db.execute("ROLLBACK TO file")
        fault = f"{exc.problem}. {exc.hint}"
    except sqlite3.OperationalError:
        raise  # of the disk of the index, not of the file
    except Exception as exc:  # noqa: BLE001  a file may break its reader in any way
        db.execute("ROLLBACK TO file")
        fault = f"cannot be read ({type(exc).__name__}). Save it anew, or leave it out"
    db.execute("RELEASE file")
    new = (one.path, one.size, mtime, one.ctime_ns, digest, fault, note)
    db.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, ?)", new)
    return not fault


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


@dataclass(slots=True)
class LiveFolder:
    """One folder, one index, one stack; a query at a time."""

    root: Path
    place: Path
    """Of the index."""
    reader: FileReader
    _lock: Lock = field(default_factory=Lock, repr=False)
    _open: ExitStack = field(default_factory=ExitStack, repr=False)
    _now: tuple[str, Any] | None = None
    """State of the index, and what answers from it."""

    @property
    def is_indexed(self) -> bool:
        """Return whether an index of the folder is there."""
        return (self.place / FILE).is_file()

    def close(self) -> None:
        """Close the index."""
        self._open.close()
        self._now = None

    @contextmanager
    def now(
        self, *, follow: bool = True, everything: bool | None = None
    ) -> Iterator[tuple[Any, Updated | None]]:
        """Return what answers for the folder as it is; with ``follow`` off, as it was indexed."""
        with self._lock:
            done = None
            if follow:
                done = update(self.root, self.place, self.reader, everything=everything)
            with reading(self.place) as db:
                state = _value(db, "generation")
            if self._now is None or state != self._now[0]:
                self.close()
                with ExitStack() as opening:
                    db = opening.enter_context(reading(self.place))
                    self._now = state, self.reader.opened(db)
                    self._open = opening.pop_all()
            yield self._now[1], done
