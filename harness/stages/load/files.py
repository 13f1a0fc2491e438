"""What a load leaves: parts of one that is under way, and a history that only grows.

A part is good for the load that it was made for, on the machine that it was made on, and for a few
hours. It lets an interrupted load go on. When a load is done, its trials are added to the history
and its parts are gone. So the same command measures anew and no time is ever served from a cache
(docs/decisions/0001).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness.core.errors import BadFile, EvidenceError
from harness.core.files import append_text, write_json, write_text
from harness.core.reading import Malformed, numbered, text_of
from harness.replay.load.record import Record
from harness.stages.layout import Layout
from harness.stages.resume import drop_older

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
