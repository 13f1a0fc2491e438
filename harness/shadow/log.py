"""The log of a live comparison: written, repaired and read."""

import errno
import fcntl
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from time import monotonic_ns
from typing import Any, Generic, Self
from uuid import uuid4

from harness.agreement import ComparisonTally, tally
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_text
from harness.core.folders import SHADOW_LOG, claim
from harness.core.reading import MAX_LINE_BYTES, Malformed, opened, text_of
from harness.core.store import Json
from harness.shadow import record

FILE = "between.json"


@dataclass(frozen=True, slots=True)
class Between:
    """Names, or addresses, of the two sides; empty where the log does not say."""

    control: str = ""
    candidate: str = ""

    @property
    def said(self) -> str:
        """Both in words, empty where one is not known."""
        both = self.control and self.candidate
        return f"{self.control} → {self.candidate}" if both else ""


BETWEEN: Json[Between] = Json(
    "the names of two engines",
    Between,
    remedy="Remove it: the pages then name no engine",
    strict=True,
)


def read_engines(folders: Sequence[Path]) -> Between:
    """Describe what the logs in ``folders`` compare; nothing where they differ or do not say."""
    files = [folder / FILE for folder in folders]
    found = {BETWEEN.read(file) for file in files if file.exists()}
    return found.pop() if len(found) == 1 else Between()


class Once:
    """Counts the attempts of each writer; refuses one that was there before."""

    def __init__(self) -> None:
        self._below: Counter[str] = Counter()
        """By writer: each number up to this one was taken."""
        self._beyond: defaultdict[str, set[int]] = defaultdict(set)
        self._last: Counter[str] = Counter()
        """By writer: the largest number that any record has."""

    def take(self, one: record.Observation) -> None:
        """Take the next attempt."""
        self.number(one)
        writer, beyond = one.writer, self._beyond[one.writer]
        if one.number <= self._below[writer] or one.number in beyond:
            problem = f"attempt {one.number} of the log {writer} is there twice"
            raise EvidenceError(f"{problem}; give each log once")
        beyond.add(one.number)
        while self._below[writer] + 1 in beyond:
            self._below[writer] += 1
            beyond.remove(self._below[writer])

    def number(self, one: record.AnyRecord) -> None:
        """Note up to which number a writer has numbered its attempts."""
        self._last[one.writer] = max(self._last[one.writer], one.number)

    @property
    def missing(self) -> int:
        """Count the attempts that were numbered and are not in the log: a crash took them."""
        beyond = sum(map(len, self._beyond.values()))
        return self._last.total() - self._below.total() - beyond


STEMS: dict[type[Any], str] = {
    record.Divergence: "divergences",
    record.Degradation: "degradations",
    record.Observation: "observations",
}
"""Names of the streams, in the order in which they are written and read: what explains an
observation stands before it."""
_PART = re.compile(r"\w+\.([0-9]{6,12})\.jsonl", re.ASCII)
WRITER = "writer"
"""File that holds the name of the log's writer."""


@dataclass(frozen=True, slots=True)
class LogContents:
    """What logs hold, each stream in the order of its attempts."""

    observations: tuple[record.Observation, ...]
    divergences: tuple[record.Divergence, ...]
    """Each has its observation."""
    degradations: tuple[record.Degradation, ...]
    missing: int
    """Attempts that were numbered and not written down: a crash took them, or a full disk. Those
    after the last number that was written are not known of."""

    @property
    def tally(self) -> ComparisonTally:
        """Count the outcomes of the attempts: compared + errored + skipped + shed."""
        return tally(one.outcome for one in self.observations)


def path(folder: Path, kind: type[object], part: int) -> Path:
    """Name one file of a stream; parts count from 1."""
    return folder / f"{STEMS[kind]}.{part:06}.jsonl"


def parts(folder: Path, kind: type[object]) -> list[int]:
    """List the parts of one stream that are there, oldest first; only the last one grows."""
    found = (_PART.fullmatch(one.name) for one in folder.glob(f"{STEMS[kind]}.*.jsonl"))
    return sorted(int(one[1]) for one in found if one)


def files(folder: Path, kind: type[object]) -> list[Path]:
    """List the files of one stream, oldest first."""
    return [path(folder, kind, part) for part in parts(folder, kind)]


def whole_lines(file: Path, start: int = 0) -> Iterator[bytes]:
    """Yield the lines from byte ``start`` on that have an end, with it."""
    with opened(file) as found:
        found.seek(start)
        while line := found.readline(MAX_LINE_BYTES):
            if line.endswith(b"\n"):
                yield line
            elif len(line) == MAX_LINE_BYTES:
                problem = f"a line has more than {MAX_LINE_BYTES} bytes"
                raise BadFile(file, problem, "Give a folder that a live comparison was written to.")


class Tail(Generic[record.Record]):
    """One stream of one log, and how far it was read."""

    def __init__(self, folder: Path, kind: type[record.Record]) -> None:
        self._folder, self._kind = folder, kind
        self._part, self._offset, self._line = -1, 0, 0

    def new(self) -> Iterator[record.Record]:
        """Yield what was written since; take all of it before asking again."""
        for part in parts(self._folder, self._kind):
            if part < self._part:
                continue
            if part > self._part:
                self._part, self._offset, self._line = part, 0, 0
            file = path(self._folder, self._kind, part)
            if (size := file.stat().st_size) < self._offset:
                raise EvidenceError(
                    f"{file} was {self._offset} bytes long and has {size}; it was replaced while it"
                    " was followed, so start again"
                )
            for line in whole_lines(file, self._offset):
                self._offset += len(line)
                self._line += 1
                yield record.parsed(self._kind, line, file, self._line)


def records(folder: Path, kind: type[record.Record]) -> Iterator[record.Record]:
    """Yield the records of one stream in the order in which they were written."""
    return Tail(folder, kind).new()


class Follower:
    """All streams of one log, or of those of several processes."""

    def __init__(self, folders: Sequence[Path]) -> None:
        names: dict[str, Path] = {}
        for folder in folders:
            name = _writer(folder)
            if name in names:
                raise EvidenceError(
                    f"{names[name]} and {folder} hold the log of one writer; give each log once"
                )
            names[name] = folder
        self._tails = [[Tail(folder, kind) for folder in folders] for kind in STEMS]

    def new(self) -> Iterator[record.AnyRecord]:
        """Yield what is new of each stream by its time: observations last, as each is explained."""
        for tails in self._tails:
            yield from merge(*(tail.new() for tail in tails), key=moment)


def _writer(folder: Path) -> str:
    try:
        return text_of(folder / WRITER).strip()
    except (OSError, Malformed) as error:
        problem = f"its log is missing (no file {WRITER!r})"
        hint = "Give a folder that a live comparison was written to"
        raise BadFile(folder, problem, hint) from error


def moment(one: record.AnyRecord) -> tuple[int, str, int]:
    """Return what records of several logs are ordered by."""
    return one.at, one.writer, one.number


def read_logs(folder: Path, *more: Path) -> LogContents:
    """Read one log, or several of different processes as one, ordered by their time."""
    once = Once()
    found: dict[type[object], list[Any]] = {kind: [] for kind in STEMS}
    for one in sorted(Follower([folder, *more]).new(), key=moment):
        found[type(one)].append(one)
        once.take(one) if isinstance(one, record.Observation) else once.number(one)
    # Observations are read last, so a divergence that was written meanwhile is left out.
    known = {(one.writer, one.number) for one in found[record.Observation]}
    return LogContents(
        observations=tuple(found[record.Observation]),
        divergences=tuple(
            one for one in found[record.Divergence] if (one.writer, one.number) in known
        ),
        degradations=tuple(found[record.Degradation]),
        missing=once.missing,
    )


LOCK = "lock"
OFF = "off"
"""A file of this name in the folder switches the comparison off while it is there."""
WRITER_DIGITS = 12
SALT = "salt"
CHUNK = 65_536
"""Bytes that are looked through at once for the last line end."""
_NUMBERS = re.compile(
    re.escape(record.HEAD) + rb'"number":(\d+),"writer":"[^"]*","at":\d+,(?:"served":(\d+))?'
)


class Stream:
    """One stream, open to append to."""

    def __init__(self, folder: Path, kind: type[object], *, rotate_bytes: int) -> None:
        self._folder, self._kind, self._rotate_bytes = folder, kind, rotate_bytes
        self._part = max(parts(folder, kind), default=1)
        self._open()
        self._cut_torn_line()

    def _open(self) -> None:
        name = path(self._folder, self._kind, self._part)
        try:
            self._file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise BadFile(name, f"it cannot be written ({exc.strerror})", "Fix that.") from exc
        self._size = os.fstat(self._file).st_size

    def _cut_torn_line(self) -> None:
        end = self._size
        while end:
            start = max(end - CHUNK, 0)
            found = os.pread(self._file, end - start, start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < self._size:
            os.ftruncate(self._file, end)
            self._size = end

    def append(self, lines: bytes) -> None:
        """Write whole lines, or none where that fails."""
        if not os.fstat(self._file).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the log was deleted")
        if self._size >= self._rotate_bytes:
            self.close()
            self._part += 1
            self._open()
        try:
            left = memoryview(lines)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(lines)

    def sync(self) -> None:
        """Wait until the disk has it."""
        os.fsync(self._file)

    def close(self) -> None:
        """Wait for the disk and let go of the file."""
        self.sync()
        os.close(self._file)


def is_log(folder: Path) -> bool:
    """Return whether a log was begun in a folder, whatever version of the program did it."""
    return (folder / WRITER).is_file() and (folder / LOCK).is_file()


def _may_begin(folder: Path) -> bool:
    """Return whether a folder is a log's, or holds nothing but the switch of one to come."""
    return is_log(folder) or (folder.is_dir() and {path.name for path in folder.iterdir()} == {OFF})


class LogWriter:
    """The one writer of a folder; goes on where the last one stopped."""

    def __init__(
        self,
        folder: Path,
        *,
        rotate_bytes: int,
        sync_ns: int,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        claim(folder, SHADOW_LOG, known=_may_begin)
        self.folder = folder
        self._sync_ns, self._clock = sync_ns, clock
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise BadFile(folder, f"no log fits there ({exc.strerror})", "Name a folder.") from exc
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(self._lock)
            raise EvidenceError(
                f"{folder}: another process writes this log; give each process its own folder,"
                " they are read together"
            ) from exc
        self.writer = self._kept(WRITER, WRITER_DIGITS)
        self.salt = self._kept(SALT, record.KEY_DIGITS)
        """For the keys of clients; whoever hands a log on leaves this file out."""
        self._streams = [Stream(folder, kind, rotate_bytes=rotate_bytes) for kind in STEMS]
        self._synced = clock()
        self.number, self.served = _last(folder)

    def _kept(self, file: str, digits: int) -> str:
        path = self.folder / file
        if not path.is_file():
            write_text(path, uuid4().hex[:digits] + "\n")
            path.chmod(0o600)
        return text_of(path).strip()

    def append(
        self,
        observations: Sequence[record.Observation],
        divergences: Sequence[record.Divergence],
        degradations: Sequence[record.Degradation],
    ) -> None:
        """Write a batch; each divergence stands before its observation."""
        batch: tuple[Sequence[record.AnyRecord], ...] = divergences, degradations, observations
        for stream, found in zip(self._streams, batch, strict=True):
            if found:
                stream.append(b"".join(map(record.dumped, found)))
        if self._clock() - self._synced >= self._sync_ns:
            for stream in self._streams:
                stream.sync()
            self._synced = self._clock()

    def close(self) -> None:
        """Wait for the disk and let others write."""
        for stream in self._streams:
            stream.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _last(folder: Path) -> tuple[int, int]:
    number = served = 0
    for kind in STEMS:
        for file in files(folder, kind):
            for line in whole_lines(file):
                if found := _NUMBERS.match(line):
                    number = max(number, int(found[1]))
                    served = max(served, int(found[2] or 0))
    return number, served
