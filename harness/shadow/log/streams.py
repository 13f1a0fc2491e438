"""The log of a live comparison, as it lies in a folder: three streams of records.

Each stream is a row of files, ``observations.000001.jsonl`` and so on; only the last one grows,
and nothing that is written changes. What stands after the last line end was cut off by a crash, or
is being written now, and is not read. A record that leaves a divergence writes it before its
observation, so that no observation lacks its divergence. A divergence without an observation is
of an attempt that was not written down whole, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from harness.agreement.classes import Tally, tally
from harness.core.errors import BadFile
from harness.core.reading import MAX_LINE_BYTES, opened
from harness.shadow.log.once import Once
from harness.shadow.log.record import Degradation, Divergence, Observation, Record, parsed

STEMS: dict[type[object], str] = {
    Observation: "observations",
    Divergence: "divergences",
    Degradation: "degradations",
}
_PART = re.compile(r"\w+\.([0-9]{6,12})\.jsonl", re.ASCII)
WRITER = "writer"
"""File that holds the name of the log's writer."""


@dataclass(frozen=True, slots=True)
class Read:
    """What logs hold, each stream in the order of its attempts."""

    observations: tuple[Observation, ...]
    divergences: tuple[Divergence, ...]
    """Each has its observation."""
    degradations: tuple[Degradation, ...]
    missing: int
    """Attempts that were numbered and not written down: a crash took them, or a full disk. Those
    after the last number that was written are not known of."""

    @property
    def tally(self) -> Tally:
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


def records(folder: Path, kind: type[Record]) -> Iterator[Record]:
    """Yield the records of one stream in the order in which they were written.

    Raises:
        BadFile: a line is not such a record.
    """
    for file in files(folder, kind):
        for number, line in enumerate(whole_lines(file), start=1):
            yield parsed(kind, line, file, number)


def read(folder: Path, *more: Path) -> Read:
    """Read one log, or several of different processes as one, ordered by their time.

    Observations are read before divergences, so that a log may be read while it grows.

    Raises:
        BadFile: a folder holds no log, or a line is not a record.
        EvidenceError: an attempt was written twice, or two folders hold the same log, by the same
            writer's name or by another.
    """
    logs = [_one(each) for each in (folder, *more)]
    observations = _ordered(log.observations for log in logs)
    once = Once()
    for one in observations:
        once.take(one)
    return Read(
        observations=observations,
        divergences=_ordered(log.divergences for log in logs),
        degradations=_ordered(log.degradations for log in logs),
        missing=sum(log.missing for log in logs),
    )


def _one(folder: Path) -> Read:
    if not (folder / WRITER).is_file():
        hint = "Give a folder that a live comparison was written to."
        raise BadFile(folder, f"its log is missing (no file {WRITER!r})", hint)
    observations = tuple(records(folder, Observation))
    divergences = tuple(records(folder, Divergence))
    degradations = tuple(records(folder, Degradation))
    known = {one.number for one in observations}
    others = {one.number for one in divergences} | {one.number for one in degradations}
    last = max(known | others, default=0)
    return Read(
        observations=observations,
        divergences=tuple(one for one in divergences if one.number in known),
        degradations=degradations,
        missing=max(last - len(known), 0),
    )


def _ordered(parts: Iterable[tuple[Record, ...]]) -> tuple[Record, ...]:
    return tuple(
        sorted(chain.from_iterable(parts), key=lambda one: (one.at, one.writer, one.number))
    )
