"""Notes on lines of a file, as build servers show them beside a change.

GitHub takes workflow commands on standard output; GitLab takes a Code Quality report. Both are of
strangers' text, so that nothing in a query can end a note or begin a command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from harness.core.printable import one_line

CHECK = "search-harness"


class Level(StrEnum):
    """How loud a note is."""

    ERROR = "error"
    WARNING = "warning"


SEVERITY = {Level.ERROR: "major", Level.WARNING: "minor"}


class Annotation(NamedTuple):
    """One note."""

    level: Level
    title: str
    message: str
    key: str
    """What stays the same from run to run while the note is about the same thing."""
    file: str = ""
    """As seen from the root of the repository; empty where no file is known."""
    line: int | None = None
    """From 1; None where no line is known."""


def github(note: Annotation) -> str:
    """Write a note as a workflow command: one line, whatever the texts hold."""
    given = {"file": note.file, "line": note.line, "title": one_line(note.title)}
    said = ",".join(f"{name}={_property(str(value))}" for name, value in given.items() if value)
    return f"::{note.level} {said}::{_data(one_line(note.message))}"


def gitlab(notes: Iterable[Annotation]) -> list[dict[str, Any]]:
    """Write notes as a Code Quality report; those without a line have no place in one."""
    return [
        {
            "description": one_line(f"{note.title}: {note.message}"),
            "check_name": CHECK,
            "fingerprint": hashlib.sha256(note.key.encode()).hexdigest(),
            "severity": SEVERITY[note.level],
            "location": {"path": note.file, "lines": {"begin": note.line}},
        }
        for note in notes
        if note.file and note.line
    ]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
