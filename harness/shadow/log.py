"""The log of a live comparison: written, repaired and read."""

import errno
import fcntl
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from time import monotonic_ns
from typing import Any, Self
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


BETWEEN: Json[Between] = Json(
    "the names of two engines", Between, remedy="Remove it: the pages then name no engine",
    strict=True,
)  # fmt: skip


class Once:
    """Counts the attempts of each writer; refuses one that was there before."""

    def __init__(self) -> None:
        self._taken: defaultdict[str, set[int]] = defaultdict(set)
        self._last: Counter[str] = Counter()
        """By writer: the largest number that any record has."""

    def take(self, one: record.AnyRecord) -> None:
        """Take the next record."""
        self._last[one.writer] = max(self._last[one.writer], one.number)
        if isinstance(one, record.Observation):
            if one.number in self._taken[one.writer]:
                problem = f"attempt {one.number} of the log {one.writer} is there twice"
                raise EvidenceError(f"{problem}; give each log once")
            self._taken[one.writer].add(one.number)

    @property
    def missing(self) -> int:
        """Count the attempts that were numbered and are not in the log: a crash took them."""
        return self._last.total() - sum(map(len, self._taken.values()))


STEMS: dict[type[Any], str] = {
    record.Divergence: "divergences",
    record.Degradation: "degradations",
    record.Observation: "observations",
}
"""Names of the streams, in the order in which they are written and read: what explains an
observation stands before it."""
_PART = re.compile(r"\w+\.[0-9]{6,12}\.jsonl", re.ASCII)
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


def path(folder: Path, kind: type[object]) -> Path:
    """Name the file of a stream; earlier versions wrote further ones, with higher numbers."""
    return folder / f"{STEMS[kind]}.000001.jsonl"


def files(folder: Path, kind: type[object]) -> list[Path]:
    """List the files of one stream, oldest first; only the last one grows."""
    found = (one for one in folder.glob(f"{STEMS[kind]}.*.jsonl") if _PART.fullmatch(one.name))
    return sorted(found, key=lambda one: (len(one.name), one))


def whole_lines(file: Path) -> Iterator[bytes]:
    """Yield the lines that have an end, with it."""
    with opened(file) as found:
        while line := found.readline(MAX_LINE_BYTES):
            if line.endswith(b"\n"):
                yield line
            elif len(line) == MAX_LINE_BYTES:
                problem = f"a line has more than {MAX_LINE_BYTES} bytes"
                raise BadFile(file, problem, "Give a folder that a live comparison was written to.")


def records(folder: Path, kind: type[record.Record]) -> Iterator[record.Record]:
    """Yield the records of one stream in the order in which they were written."""
    for file in files(folder, kind):
        for number, line in enumerate(whole_lines(file), start=1):
            yield record.parsed(kind, line, file, number)


def all_records(folders: Sequence[Path]) -> Iterator[record.AnyRecord]:
    """Yield what logs hold, each stream by its time: observations last, as each is explained."""
    names: dict[str, Path] = {}
    for folder in folders:
        try:
            name = text_of(folder / WRITER).strip()
        except (OSError, Malformed) as error:
            problem = f"its log is missing (no file {WRITER!r})"
            hint = "Give a folder that a live comparison was written to"
            raise BadFile(folder, problem, hint) from error
        if name in names:
            raise EvidenceError(
                f"{names[name]} and {folder} hold the log of one writer; give each log once"
            )
        names[name] = folder
    for kind in STEMS:
        yield from merge(*(records(folder, kind) for folder in folders), key=moment)


def moment(one: record.AnyRecord) -> tuple[int, str, int]:
    """Return what records of several logs are ordered by."""
    return one.at, one.writer, one.number


def read_logs(folder: Path, *more: Path) -> LogContents:
    """Read one log, or several of different processes as one, ordered by their time."""
    once = Once()
    found: dict[type[object], list[Any]] = {kind: [] for kind in STEMS}
    for one in sorted(all_records([folder, *more]), key=moment):
        found[type(one)].append(one)
        once.take(one)
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
SYNC_NS = 10 * 10**9
"""How often the disk is waited for: a power cut takes what came since."""
SALT = "salt"
_NUMBERS = re.compile(
    re.escape(record.HEAD) + rb'"number":(\d+),"writer":"[^"]*","at":\d+,(?:"served":(\d+))?'
)


class Stream:
    """One stream, open to append to."""

    def __init__(self, folder: Path, kind: type[object]) -> None:
        name = (files(folder, kind) or [path(folder, kind)])[-1]
        try:
            self._file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise BadFile(name, f"it cannot be written ({exc.strerror})", "Fix that.") from exc
        self._size = os.fstat(self._file).st_size
        if self._size:  # a torn last line is cut off
            with mmap(self._file, 0, access=ACCESS_READ) as content:
                self._size = content.rfind(b"\n") + 1
            os.ftruncate(self._file, self._size)

    def append(self, lines: bytes) -> None:
        """Write whole lines, or none where that fails."""
        if not os.fstat(self._file).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the log was deleted")
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


class LogWriter:
    """The one writer of a folder; goes on where the last one stopped."""

    def __init__(self, folder: Path, clock: Callable[[], int] = monotonic_ns) -> None:
        switched_off = folder.is_dir() and {one.name for one in folder.iterdir()} == {OFF}
        claim(folder, SHADOW_LOG, known=lambda _: switched_off or is_log(folder))
        self.folder = folder
        self._clock = clock
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
        self.writer = self._kept(WRITER, 12)
        self.salt = self._kept(SALT, record.KEY_DIGITS)
        """For the keys of clients; whoever hands a log on leaves this file out."""
        self._streams = [Stream(folder, kind) for kind in STEMS]
        self._synced = clock()
        self.number = self.served = 0
        known = [file for kind in STEMS for file in files(folder, kind)]
        for line in chain.from_iterable(map(whole_lines, known)):
            if found := _NUMBERS.match(line):
                self.number = max(self.number, int(found[1]))
                self.served = max(self.served, int(found[2] or 0))

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
        if self._clock() - self._synced >= SYNC_NS:
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
