"""The writer of a log: appends whole lines, starts a new file in time, repairs after a crash.

A batch is written by one call a stream: divergences, degradations, and then observations. A killed
process loses what was not written yet, at most a line is torn, and ``Log`` cuts that off
when it opens the folder again. The disk is waited for (fsync) when a file is full, when the log is
closed, and else no more often than ``sync_ns``: a power cut may take as much.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Self
from uuid import uuid4

from harness.core.durable.owned import SHADOW_LOG, claim
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_text
from harness.core.reading import text_of
from harness.shadow.log.record import HEAD, KEY_DIGITS, Degradation, Divergence, Observation, dumped
from harness.shadow.log.streams import STEMS, WRITER, files, parts, path, whole_lines

LOCK = "lock"
OFF = "off"
"""A file of this name in the folder switches the comparison off while it is there."""
WRITER_DIGITS = 12
SALT = "salt"
CHUNK = 65_536
"""Bytes that are looked through at once for the last line end."""
_NUMBERS = re.compile(
    re.escape(HEAD) + rb'"number":(\d+),"writer":"[^"]*","at":\d+,(?:"served":(\d+))?'
)


class Stream:
    """One stream, open to append to.

    Raises:
        BadFile: a file is there and cannot be written to.
    """

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
        """Write whole lines, or none where that fails.

        Raises:
            OSError: the disk is full or gone, or the file was deleted; what was written of
                ``lines`` is taken back.
        """
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
    """Tell whether a log was begun in a folder, whatever version of the program did it."""
    return (folder / WRITER).is_file() and (folder / LOCK).is_file()


def _may_begin(folder: Path) -> bool:
    """Tell whether a folder is a log's, or holds nothing but the switch of one to come."""
    return is_log(folder) or (folder.is_dir() and {path.name for path in folder.iterdir()} == {OFF})


class Log:
    """The one writer of a folder; goes on where the last one stopped.

    Raises:
        EvidenceError: another process, or another ``Log`` of this one, is writing there.
        NotOurs: the folder holds what no log wrote.
        HarnessError: it cannot be written to.
    """

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
        self.salt = self._kept(SALT, KEY_DIGITS)
        """For the keys of clients; whoever hands a log on leaves this file out."""
        kinds = (Divergence, Degradation, Observation)
        self._streams = {kind: Stream(folder, kind, rotate_bytes=rotate_bytes) for kind in kinds}
        self._synced = clock()
        self.number, self.served = _last(folder)

    def _kept(self, file: str, digits: int) -> str:
        """Read what stands in a file of the folder, drawn when the log was begun."""
        path = self.folder / file
        if not path.is_file():
            write_text(path, uuid4().hex[:digits] + "\n")
            path.chmod(0o600)
        return text_of(path).strip()

    def append(
        self,
        observations: Sequence[Observation],
        divergences: Sequence[Divergence],
        degradations: Sequence[Degradation],
    ) -> None:
        """Write a batch; each divergence stands before its observation.

        Raises:
            OSError: the disk is full or gone. Observations are then not written.
        """
        for kind, found in (
            (Divergence, divergences),
            (Degradation, degradations),
            (Observation, observations),
        ):
            if found:
                self._streams[kind].append(b"".join(map(dumped, found)))
        if self._clock() - self._synced >= self._sync_ns:
            for stream in self._streams.values():
                stream.sync()
            self._synced = self._clock()

    def close(self) -> None:
        """Wait for the disk and let others write."""
        for stream in self._streams.values():
            stream.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _last(folder: Path) -> tuple[int, int]:
    """Largest number of an attempt, and of a served query, that any stream knows; else 0."""
    number = served = 0
    for kind in STEMS:
        for file in files(folder, kind):
            for line in whole_lines(file):
                if found := _NUMBERS.match(line):
                    number = max(number, int(found[1]))
                    served = max(served, int(found[2] or 0))
    return number, served
