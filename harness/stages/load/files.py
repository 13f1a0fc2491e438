"""What a load leaves, and what its workers open."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engines import registry
from harness.core.engine import Searcher
from harness.core.errors import BadFile, EvidenceError, IndexNotReady
from harness.core.files import append_text, write_json, write_text
from harness.core.reading import Malformed, numbered, text_of
from harness.replay.load_trial import Record
from harness.stages.layout import Layout, drop_older

CURVE = "curve"
"""Purpose of a trial that was requested, and not made by a search."""
LOAD_KEY = 16
"""Digits by which a trial names the receipt of its load."""


def history_of(layout: Layout) -> Path:
    """Say where every trial under load is, a line each. It only grows."""
    return layout.today / "load.jsonl"


def page_of(layout: Layout) -> Path:
    """Say where the last load is, for people."""
    return layout.today / "load.html"


def trials_of(layout: Layout) -> Path:
    """Say where the trials of the last load are by themselves, a line each."""
    return layout.today / "load_trials.jsonl"


def receipt_of(layout: Layout) -> Path:
    """Say where it is told what was loaded, without the times: the same from day to day."""
    return layout.root / "load.json"


def parts_of(layout: Layout) -> Path:
    """Say where the trials of loads that are under way are, in a folder for each."""
    return layout.cache / "parts" / "load"


class Parts:
    """Trials of a load that is under way, one file each."""

    def __init__(self, folder: Path, resume_hours: float) -> None:
        """Keep what is younger than ``resume_hours``, and remove the rest."""
        self._folder = folder
        drop_older(folder, resume_hours)

    def get(self, name: str, make: Callable[[], Record]) -> Record:
        """Read the part called ``name``, or make it and write it."""
        path = self._folder / f"{name}.json"
        if path.is_file():
            try:
                return Record.of_line(text_of(path))
            except (EvidenceError, Malformed):
                path.unlink()  # as good as none
        record = make()
        write_text(path, record.line() + "\n")
        return record

    def done(self) -> None:
        """Remove them all."""
        shutil.rmtree(self._folder, ignore_errors=True)


def keep(layout: Layout, records: Sequence[Record], receipt: Mapping[str, object]) -> None:
    """Add the trials of a load that is done to the history, and put them by themselves too."""
    append(history_of(layout), records)
    write_text(trials_of(layout), "".join(record.line() + "\n" for record in records))
    write_json(receipt_of(layout), receipt)


def append(history: Path, records: Iterable[Record]) -> None:
    """Add trials to the history, a line each, and see them on the disk."""
    append_text(history, "".join(record.line() + "\n" for record in records))


def read_history(history: Path) -> tuple[Record, ...]:
    """Read every trial that was ever added, in their order.

    Raises:
        BadFile: it is missing, or a line is not a trial.
    """
    hint = "Run: harness load"
    if not history.exists():
        raise BadFile(history, "no trial was run yet", hint)
    found = []
    for number, line in numbered(history):
        try:
            found.append(Record.of_line(line))
        except EvidenceError as exc:
            raise BadFile(history, f"{exc}", "Remove the line", number) from exc
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Opener:
    """A value that a new process can be sent."""

    arm: str
    """Name of the arm or path to its TOML file."""
    index: Path
    cache: Path
    fingerprint: str
    """Of the index that the arm was replayed on."""

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        """Open the arm.

        Raises:
            IndexNotReady: the index is another than the one that the arm was replayed on.
        """
        arm = registry.load(self.arm, self.cache)
        with arm.open(self.index) as searcher:
            if searcher.manifest.fingerprint != self.fingerprint:
                raise IndexNotReady(
                    f"{self.index}: is not the index that {arm.name} was replayed on. Run: harness"
                    f" index --arm {arm.name}, then: harness replay --arm {arm.name}"
                )
            yield searcher
