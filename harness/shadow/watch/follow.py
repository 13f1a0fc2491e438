"""Follows logs that grow: each call gives what was written since the last one, and nothing twice.

Only new bytes are read. A file is left when the next one was there before its end was read, so
what is appended just before a rotation is not missed. A torn line is not read until it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import Generic

from harness.core.errors import BadFile, EvidenceError
from harness.core.reading import Malformed, text_of
from harness.shadow.log.once import Once
from harness.shadow.log.record import (
    AnyRecord,
    Degradation,
    Divergence,
    Observation,
    Record,
    parsed,
)
from harness.shadow.log.streams import WRITER, parts, path, whole_lines
from harness.shadow.watch.summary import Summary


class Tail(Generic[Record]):
    """One stream of one log, and how far it was read."""

    def __init__(self, folder: Path, kind: type[Record]) -> None:
        self._folder, self._kind = folder, kind
        self._part, self._offset, self._line = -1, 0, 0

    def new(self) -> Iterator[Record]:
        """Yield what was written since; take all of it before asking again.

        Raises:
            BadFile: a line is not such a record.
            EvidenceError: a file is shorter than it was: the log is another one now.
        """
        while True:
            there = parts(self._folder, self._kind)
            if self._part in there:
                yield from self._lines(path(self._folder, self._kind, self._part))
            later = [part for part in there if part > self._part]
            if not later:
                return
            self._part, self._offset, self._line = later[0], 0, 0

    def _lines(self, file: Path) -> Iterator[Record]:
        size = file.stat().st_size
        if size < self._offset:
            raise EvidenceError(
                f"{file} was {self._offset} bytes long and has {size}; it was replaced while it was"
                " followed, so start again"
            )
        for line in whole_lines(file, self._offset):
            self._offset += len(line)
            self._line += 1
            yield parsed(self._kind, line, file, self._line)


class Follower:
    """All streams of one log, or of those of several processes.

    Raises:
        BadFile: a folder holds no log.
        EvidenceError: two folders hold the log of one writer.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        names: dict[str, Path] = {}
        for folder in folders:
            name = _writer(folder)
            if name in names:
                raise EvidenceError(
                    f"{names[name]} and {folder} hold the log of one writer; give each log once"
                )
            names[name] = folder
        self._divergences = [Tail(folder, Divergence) for folder in folders]
        self._degradations = [Tail(folder, Degradation) for folder in folders]
        self._observations = [Tail(folder, Observation) for folder in folders]
        self._once = Once()

    def feed(self, summary: Summary) -> int:
        """Hand on what is new, in the order of time; give the number of new attempts.

        Raises:
            BadFile: a line is not a record.
            EvidenceError: a log was replaced while it was followed, or holds an attempt twice.
        """
        for divergence in _by_time(self._divergences):
            summary.tell(divergence)
        for degradation in _by_time(self._degradations):
            summary.note(degradation)
        count = 0
        for observation in _by_time(self._observations):
            self._once.take(observation)
            summary.see(observation)
            count += 1
        return count


def _by_time(tails: Sequence[Tail[Record]]) -> Iterator[Record]:
    return merge(*(tail.new() for tail in tails), key=_moment)


def _moment(record: AnyRecord) -> tuple[int, str, int]:
    return record.at, record.writer, record.number


def _writer(folder: Path) -> str:
    try:
        return text_of(folder / WRITER).strip()
    except (OSError, Malformed) as error:
        hint = "Give a folder that a live comparison was written to"
        problem = f"its log is missing (no file {WRITER!r})"
        raise BadFile(folder, problem, hint) from error
