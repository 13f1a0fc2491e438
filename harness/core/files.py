"""Files that appear whole or not at all, locks, temporary folders, and what a disk refuses."""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

from harness.core import digest
from harness.core.errors import BadFile, HarnessError, Locked


def claimed(path: Path, flags: int) -> int | None:
    """Open a lock file and lock it; None where another holds it or it is gone by then."""
    lock = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine, there = os.fstat(lock), path.lstat()
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
        return lock
    os.close(lock)
    return None


def let_go(lock: int) -> None:
    """Return up what ``claimed`` gave, also for a process that was forked meanwhile."""
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


LEFT_OVER = ".partial"
OLD = ".old"
"""In the folder: what is being replaced, where that takes two steps."""
_TOKEN_BYTES = 8
_TEMPORARY = re.compile(rf"\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}{re.escape(LEFT_OVER)}")
"""How a folder of ours is named; it has a lock in it, or is empty still."""
_LOCK = ".lock"
_TRIES = 3


@contextmanager
def written_in(folder: Path) -> Iterator[Path]:
    """Return a new folder in ``folder``, locked while the block runs and removed after it."""
    sweep(folder)
    lock = None
    while lock is None:
        place = folder / f".{token_hex(_TOKEN_BYTES)}{LEFT_OVER}"
        place.mkdir()
        try:
            lock = claimed(place / _LOCK, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            continue
        except OSError:
            _surely_removed(place)
            raise
    try:
        yield place
    finally:
        _surely_removed(place)
        let_go(lock)


def sweep(folder: Path) -> None:
    """Remove what dead writers left in ``folder``; half a replacement is put back first."""
    with os.scandir(folder) as entries:
        left = [Path(e.path) for e in entries if _TEMPORARY.fullmatch(e.name)]
    for path in left:
        with suppress(OSError):
            _swept(path)


def _swept(left: Path) -> None:
    """Remove what is ours beyond doubt; a link or a file of such a name is somebody else's."""
    if left.is_symlink() or not left.is_dir():
        return
    if not os.access(left, os.X_OK) or not (left / _LOCK).exists():
        left.rmdir()
    elif (lock := claimed(left / _LOCK, os.O_RDWR)) is not None:
        try:
            _removed(left)
        finally:
            let_go(lock)


def _surely_removed(place: Path) -> None:
    """Remove a temporary folder if it can be; over a network a signal may break that off."""
    for _ in range(_TRIES):
        try:
            _removed(place)
        except InterruptedError:
            continue
        except OSError:
            break
        else:
            return
    with suppress(OSError):
        place.rmdir()


def _removed(place: Path) -> None:
    """Remove a temporary folder, its lock last, putting an old folder back that lost its place."""
    old = place / OLD
    within = [one for one in place.iterdir() if one.name != _LOCK]
    for new in within:
        if new != old and old.exists() and not (lost := place.with_name(new.name)).exists():
            old.replace(lost)
    for one in [one for one in within if one.exists() or one.is_symlink()]:
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink()
    (place / _LOCK).unlink(missing_ok=True)
    place.rmdir()


def check_leads(path: Path) -> None:
    """Check that a path names one place, now and once the folders above it are made."""
    for number, step in enumerate(path.parts):
        below = Path(*path.parts[:number])
        if step == ".." and not below.is_dir():
            problem = f"cannot resolve '..': {below} is not a directory"
            raise BadFile(path, problem, "Name the place without '..'")
    if not path.is_symlink():
        return
    try:
        path.stat()
    except FileNotFoundError:
        hint = "Remove the link, or name another place"
        raise BadFile(path, "is a link to nothing", hint) from None
    except OSError:
        return


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK = FULL | {errno.EIO, errno.EROFS}
"""What a disk answers to a write; ``FULL`` where it has no room."""
NO_ROOM = "Free some space on that disk, then run the same command again"
READ_ONLY = "Name a place on a disk that can be written, or make this one writable"
FAILING = "Check that disk and any limit of a file's size, then run the same command again"
REMEDIES = {**dict.fromkeys(FULL, NO_ROOM), errno.EROFS: READ_ONLY, errno.EIO: FAILING}
PRIMARY = 0xFF
"""The part of SQLite's code that says what kind of error it is."""
BY_SQLITE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}
BY_WORDS = re.compile(r"(?:\(os error |\bOs \{ code: |\[Errno )(\d+)")
"""How Rust says it, and ``shutil`` of files of a folder."""
BY_NUMPY = re.compile(r"^\d+ requested and \d+ written$")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file that a disk refused: a failed write(2) does not say which one it was."""
    try:
        yield
    except Exception as exc:
        told = refusal(exc)
        named = isinstance(exc, BadFile) or (told and told.filename and not _passing(told.filename))
        if told is None or named:
            raise
        number = told.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from exc


def refusal(exc: BaseException) -> OSError | None:
    """Return the disk's answer that an error comes of; None where it comes of another cause."""
    found = (_as_os_error(one) for one in _causes(exc))
    return next((one for one in found if one.errno in DISK), None)


def _causes(exc: BaseException) -> Iterator[BaseException]:
    told: BaseException | None = exc
    seen = set[int]()
    while told is not None and id(told) not in seen:
        seen.add(id(told))
        yield told
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)


def _as_os_error(exc: BaseException) -> OSError:
    if isinstance(exc, sqlite3.Error):
        code = getattr(exc, "sqlite_errorcode", None) or 0
        return OSError(BY_SQLITE.get(code & PRIMARY), str(exc))
    if isinstance(exc, OSError) and exc.errno is not None:
        return exc
    if isinstance(exc, OSError) and BY_NUMPY.match(str(exc)):
        return OSError(errno.ENOSPC, str(exc))
    by_words = BY_WORDS.search(str(exc))
    return OSError(int(by_words[1]) if by_words else None, str(exc))


def _passing(named: object) -> bool:
    """Return whether a file has no lasting name yet: it is written beside its place."""
    return any(part.endswith(LEFT_OVER) for part in Path(str(named)).parts)


PATIENCE_S = 600.0
PAUSE_S = 0.002, 0.05


@contextmanager
def held(thing: Path, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Lock ``thing`` while the block runs; every other writer waits, on any thread.

    Hold it around everything that is read, changed and written. ``thing`` is a file or folder that
    need not exist; the lock lies beside it, so that replacing the thing does not lose the lock.
    The system lets go when the process ends, however it ends, and what a dead writer left in the
    folder is swept. A lock is not given twice: what runs inside must not hold the thing again.
    """
    check_leads(thing)
    whole = thing.resolve()
    whole.parent.mkdir(parents=True, exist_ok=True)
    path = whole.with_name(f".{whole.name}.lock")
    until, pause = monotonic() + patience_s, PAUSE_S[0]
    while (lock := claimed(path, os.O_RDWR | os.O_CREAT)) is None:
        if monotonic() >= until:
            raise Locked(thing, patience_s)
        sleep(pause)
        pause = min(2 * pause, PAUSE_S[1])
    try:
        sweep(path.parent)
        yield
    finally:
        if _empty(lock):
            with suppress(OSError):
                path.unlink()
        let_go(lock)


def _empty(lock: int) -> bool:
    """Return whether it is a file without content, as ours are; another one is somebody else's."""
    found = os.fstat(lock)
    return stat.S_ISREG(found.st_mode) and not found.st_size


OTHERS = 0o077
REMEDY = "Free some space there, or set TMPDIR to a folder with room"


def place() -> Path:
    """Return the folder of all temporary folders of this user, made where it is missing."""
    folder = above() / f"harness-{os.getuid()}"
    with told(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & OTHERS
    if not private or found.st_uid != os.getuid():
        raise HarnessError(
            f"{folder}: is not a folder that only you can read. Remove it, or set TMPDIR"
        )
    return folder


def above() -> Path:
    """Return the system's folder for temporary files: TMPDIR, or the next one that takes a file."""
    try:
        return Path(gettempdir())
    except FileNotFoundError as exc:
        raise HarnessError(f"no folder takes temporary files ({exc.strerror}). {REMEDY}") from exc


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Describe a temporary folder that a disk refused, and what to do."""
    try:
        with naming(folder):
            yield
    except OSError as exc:
        if exc.errno not in DISK or exc.filename != str(folder):
            raise
        problem = f"temporary files cannot be written there ({exc.strerror})"
        raise BadFile(folder, problem, REMEDY) from exc


@contextmanager
def scratch() -> Iterator[Path]:
    """Return a new, empty folder for the block and remove it afterwards."""
    folder = place()
    with told(folder), written_in(folder) as locked:
        made = locked / "files"
        made.mkdir()
        yield made


AT_FDCWD = -100
CACHE, PRIVATE = ".cache", 0o700
"""What is rebuilt at will from texts that may be private: the folder's name, and its mode."""
EXCHANGE = 2


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Return a whole path to write to; it becomes ``path`` if the block ends well, else it goes."""
    check_leads(path)
    path = path.absolute()
    _make(path.parent, durable=durable)
    with naming(path), written_in(path.parent) as place:
        beside = place / path.name
        yield beside
        if durable:
            _sync(beside)
        before = beside.stat()
        beside.replace(path)
        digest.moved(before, path)
        if durable:
            _sync(path.parent)


@contextmanager
def replacing_folder(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Return an empty folder to fill; it becomes ``path``, in one step where the system can."""
    check_leads(path)
    path = path.absolute()
    _make(path.parent, durable=durable)
    with naming(path), written_in(path.parent) as place:
        beside = place / path.name
        beside.mkdir()
        yield beside
        if durable:
            for folder, _, names in os.walk(beside):
                for name in names:
                    _sync(Path(folder, name))
                _sync(Path(folder))
        if not (path.exists() and swapped(beside, path)):
            _two_steps(beside, path)
        if durable:
            _sync(path.parent)


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> str:
    """Write a file, and return the digest of its bytes."""
    sha256 = digest.of_bytes(content)
    with replacing(path, durable=durable) as beside:
        beside.write_bytes(content)
        digest.note(beside, sha256)
    return sha256


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write ``text`` as UTF-8 with Unix line ends."""
    write_bytes(path, text.encode(), durable=durable)


def append_text(path: Path, text: str) -> None:
    """Add ``text`` on a line of its own, all or nothing; for logs of some megabytes at most."""
    with held(path):
        before = path.read_bytes() if path.exists() else b""
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        with replacing(path, durable=True) as beside:
            beside.write_bytes(before + gap + text.encode("utf-8"))


def write_json(path: Path, value: Any, *, durable: bool = False) -> None:  # noqa: ANN401  any JSON
    """Write ``value`` with sorted keys; refuses NaN and infinities, which are not JSON."""
    write_text(path, json_text(value), durable=durable)


def json_text(value: Any) -> str:  # noqa: ANN401  whatever json can write
    """Return ``value`` as ``write_json`` writes it."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def remove(path: Path) -> None:
    """Remove a file if it exists, and wait until that is on the disk."""
    path.unlink(missing_ok=True)
    with naming(path):
        _sync(path.parent)


def _two_steps(beside: Path, path: Path) -> None:
    old = beside.with_name(OLD)
    if path.exists():
        beside.stat()
        path.replace(old)
    try:
        beside.replace(path)
    except OSError:
        if old.exists():
            old.replace(path)
        raise


def make_private(folder: Path) -> None:
    """Make a folder that only its user can enter, and close one that is there to others."""
    _make(folder, durable=False)
    folder.chmod(PRIVATE)


def _make(folder: Path, *, durable: bool) -> None:
    """Make a folder with those above it; a new cache is closed to others, for it holds texts."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        if one.name == CACHE:
            one.chmod(PRIVATE)
    with naming(folder):
        for one in missing if durable else ():
            _sync(one.parent)


def _sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def swapped(one: Path, other: Path) -> bool:
    """Swap two paths of one file system in one step; False, and nothing done, where that failed."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(AT_FDCWD, paths[0], AT_FDCWD, paths[1], EXCHANGE) == 0)


def seen_from(folder: Path, page: Path) -> str:
    """Return the relative address of a page; empty where there is none."""
    return quote(Path(os.path.relpath(page, folder)).as_posix()) if page.is_file() else ""
