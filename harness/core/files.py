"""Files that appear whole or not at all, locks, temporary folders, and what a disk refuses."""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
    with ExitStack() as unless_locked, suppress(BlockingIOError, FileNotFoundError):
        lock = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        unless_locked.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), path.lstat()):
            unless_locked.pop_all()
            return lock
    return None


def let_go(lock: int) -> None:
    """Unlock what ``claimed`` locked, also for a process that was forked meanwhile."""
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


LEFT_OVER = ".partial"
OLD = ".old"
"""In the folder: what is being replaced, where that takes two steps."""
_TEMPORARY = re.compile(rf"\.harness-[0-9a-f]{{16}}{re.escape(LEFT_OVER)}")
_LOCK = ".lock"
"""In the folder: over NFS other machines see the lock of a file, and not that of a folder."""


@contextmanager
def written_in(folder: Path) -> Iterator[Path]:
    """Return a new folder in ``folder``, locked while the block runs and removed after it."""
    sweep(folder)
    lock = None
    while lock is None:  # another writer may sweep it before it is locked
        place = folder / f".harness-{token_hex(8)}{LEFT_OVER}"
        place.mkdir()
        try:
            lock = claimed(place / _LOCK, os.O_RDWR | os.O_CREAT)
        except OSError:
            shutil.rmtree(place, ignore_errors=True)
            raise
    try:
        yield place
    finally:
        with suppress(OSError):
            _removed(place)
        let_go(lock)


def sweep(folder: Path) -> None:
    """Remove what dead writers left in ``folder``; half a replacement is put back first."""
    with os.scandir(folder) as entries:
        left = [Path(e.path) for e in entries if _TEMPORARY.fullmatch(e.name)]
    for path in left:
        with suppress(OSError):
            if path.is_symlink() or not (path / _LOCK).exists():
                path.rmdir()
            elif (lock := claimed(path / _LOCK, os.O_RDWR)) is not None:
                try:
                    _removed(path)
                finally:
                    let_go(lock)


def _removed(place: Path) -> None:
    """Remove a temporary folder, its lock last, putting an old folder back that lost its place."""
    old = place / OLD
    within = [one for one in place.iterdir() if one.name != _LOCK]
    for new in within:
        if new != old and old.exists() and not (lost := place.with_name(new.name)).exists():
            old.replace(lost)
    for one in within:
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)
    (place / _LOCK).unlink()
    place.rmdir()


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK = FULL | {errno.EIO, errno.EROFS}
"""What a disk answers to a write; ``FULL`` where it has no room."""
NO_ROOM = "Free some space on that disk, then run the same command again"
READ_ONLY = "Name a place on a disk that can be written, or make this one writable"
FAILING = "Check that disk and any limit of a file's size, then run the same command again"
REMEDIES = {**dict.fromkeys(FULL, NO_ROOM), errno.EROFS: READ_ONLY, errno.EIO: FAILING}
SAID = {
    errno.ENOSPC: re.compile(
        r"No space left|disk is full|\d requested and \d+ written|os error 28\b"
    ),
    errno.EFBIG: re.compile(r"File too large|os error 27\b"),
    errno.EDQUOT: re.compile(r"quota exceeded|os error 122\b"),
    errno.EROFS: re.compile(r"Read-only file system|readonly database|os error 30\b"),
    errno.EIO: re.compile(r"Input/output error|disk I/O error|os error 5\b"),
}
"""How SQLite, NumPy, Rust and ``shutil`` say what a disk answered."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file that a disk refused: a failed write(2) does not say which one it was."""
    try:
        yield
    except Exception as exc:
        told = refusal(exc)
        lasting = told and told.filename and LEFT_OVER not in str(told.filename)
        if told is None or lasting or isinstance(exc, BadFile):
            raise
        number = told.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from exc


def refusal(exc: BaseException) -> OSError | None:
    """Return the disk's answer that an error comes of; None where it comes of another cause."""
    told: BaseException | None = exc
    seen = set[int]()
    while told is not None and id(told) not in seen:
        if isinstance(told, OSError) and told.errno in DISK:
            return told
        if number := next((one for one, said in SAID.items() if said.search(str(told))), None):
            return OSError(number, os.strerror(number))
        seen.add(id(told))
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return None


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
        if not os.fstat(lock).st_size:  # as ours are; another one is somebody else's
            with suppress(OSError):
                path.unlink()
        let_go(lock)


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
def _beside(path: Path, *, durable: bool) -> Iterator[Path]:
    """Return a place to write to, whose content is ``path`` after the block."""
    _make(path.parent, durable=durable)
    with naming(path), written_in(path.parent) as place:
        yield place / path.name
        if durable:
            _sync(path.parent)


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Return a whole path to write to; it becomes ``path`` if the block ends well, else it goes."""
    path = path.absolute()
    with _beside(path, durable=durable) as beside:
        yield beside
        if durable:
            _sync(beside)
        beside.replace(path)


@contextmanager
def replacing_folder(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Return an empty folder to fill; it becomes ``path``, in one step where the system can."""
    path = path.absolute()
    with _beside(path, durable=durable) as beside:
        beside.mkdir()
        yield beside
        for folder, _, names in os.walk(beside) if durable else ():
            for name in (*names, ""):
                _sync(Path(folder, name))
        if not (path.exists() and swapped(beside, path)):
            _two_steps(beside, path)


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> str:
    """Write a file, and return the digest of its bytes."""
    with replacing(path, durable=durable) as beside:
        beside.write_bytes(content)
    return digest.of_bytes(content)


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
