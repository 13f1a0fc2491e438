"""What a load leaves: parts of one that is under way, and a history that only grows.

A part is good for the load that it was made for, on the machine that it was made on, and for a few
hours: it lets an interrupted load go on. When a load is done, its trials are added to the history
and its parts are gone, so the same command measures anew and no time is ever served from a cache
(docs/decisions/0001).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_text
from harness.replay.load_record import Record
from harness.stages.layout import Layout

HOUR_S = 3600.0


def history_of(layout: Layout) -> Path:
    """Say where every trial under load is, a line each. It only grows."""
    return layout.today / "load.jsonl"


def page_of(layout: Layout) -> Path:
    """Say where the last load is, for people."""
    return layout.today / "load.html"


def receipt_of(layout: Layout) -> Path:
    """Say where it is told what was loaded, without the times: the same from day to day."""
    return layout.root / "load.json"


def parts_of(layout: Layout, key: str) -> Path:
    """Say where the trials of a load that is under way are; gone when it is done."""
    return layout.cache / "parts" / "load" / key


class Parts:
    """Trials of a load that is under way, one file each."""

    def __init__(self, folder: Path, resume_hours: float) -> None:
        """Keep what is younger than ``resume_hours``, and remove the rest."""
        self._folder = folder
        for part in folder.glob("*.json"):
            if time.time() - part.stat().st_mtime > resume_hours * HOUR_S:
                part.unlink()

    def get(self, name: str, make: Callable[[], Record]) -> Record:
        """Read the part called ``name``, or make it and write it."""
        path = self._folder / f"{name}.json"
        if path.is_file():
            try:
                return Record.of_line(path.read_text(encoding="utf-8"))
            except EvidenceError:
                path.unlink()  # as good as none
        record = make()
        write_text(path, record.line() + "\n")
        return record

    def done(self) -> None:
        """Remove them all."""
        shutil.rmtree(self._folder, ignore_errors=True)


def append(history: Path, records: Iterable[Record]) -> None:
    """Add trials to the history, a line each, and see them on the disk."""
    history.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(record.line() + "\n" for record in records)
    with history.open("a", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_history(history: Path) -> tuple[Record, ...]:
    """Read every trial that was ever added, in their order.

    Raises:
        BadFile: it is missing, or a line is no trial.
    """
    cure = "Run: harness load"
    try:
        lines = history.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BadFile(history, "no trial was run yet", cure) from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(Record.of_line(line))
        except EvidenceError as exc:
            raise BadFile(history, f"{exc}", "Remove the line", number) from exc
    return tuple(found)
