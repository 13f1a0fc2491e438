"""A batch of work and the part file that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.core.files import replacing

Work = Callable[[Any, Path], Iterable[int]]
"""Writes the part file of what it is given, and yields how many steps it has done meanwhile. It is
closed early where the work stops. For other processes it is a value that can be pickled."""
Advance = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be done, and the file that it leaves."""

    given: Any
    part: Path
    steps: int = 1
    """How far the whole work is, once this is done."""


class Executor(Protocol):
    """Does batches in any order."""

    @property
    def folder(self) -> Path | None:
        """Folder that all its processes see; None where this process does the batches.

        Work, and what it is given, are sent to other processes.
        """
        ...

    def each(self, work: Work, batches: Sequence[Batch], advance: Advance, threads: int) -> None:
        """Do every batch; ``threads`` at once where that is up to this process.

        Raises:
            HarnessError: the work raised one, or the processes that did it were lost too often.
        """
        ...


def written(work: Work, batch: Batch) -> Generator[int]:
    """Do one batch, yielding its steps; its part file appears at the end."""
    with replacing(batch.part) as beside:
        yield from work(batch.given, beside)
