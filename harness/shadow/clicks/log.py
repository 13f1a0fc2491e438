"""The log of interleaved lists and clicks: JSON lines that are only ever added."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.core.errors import BadFile
from harness.core.formats import checked
from harness.core.json_models import Moment
from harness.core.reading import Malformed, numbered
from harness.shadow.clicks.team_draft import Mixed

FILE = "clicks.jsonl"


@dataclass(frozen=True, slots=True)
class ShownList:
    """A list that was shown."""

    id: str
    at: Moment
    query: str
    arms: tuple[str, ...]
    """The control first; the control alone where lists were not mixed."""
    documents: tuple[str, ...]
    teams: tuple[int, ...]
    """For each document the place of its arm in ``arms``."""
    failed: str = ""
    """What an arm raised, so that the control's list was shown as it is."""
    user: str = ""
    """Who saw it, in all sessions and as no one else; empty where that is unknown."""

    @property
    def mixed(self) -> Mixed:
        """The documents with their teams."""
        return Mixed(self.documents, self.teams)


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a document of a list."""

    id: str
    """Of the list."""
    document: str


_RECORD: TypeAdapter[ShownList | Click] = TypeAdapter(ShownList | Click)


class ClickLog:
    """Adds records to the log in a folder; a record is one write, so that writers may share it."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, record: ShownList | Click) -> None:
        """Add a record."""
        line = json.dumps(asdict(record), ensure_ascii=False, default=datetime.isoformat)
        os.write(self._file, (line + "\n").encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Clicks:
    """A log as it was read."""

    shown: tuple[ShownList, ...]
    clicked: Mapping[str, frozenset[str]]
    """Documents that were clicked, by the id of their list."""
    strays: int
    """Clicks on a list or a document that the log does not show; they count for nothing."""


def read(folder: Path) -> Clicks:
    """Read the log in a folder.

    Raises:
        BadFile: it is missing, a line is malformed, or a list comes twice.
    """
    path = folder / FILE
    shown: dict[str, ShownList] = {}
    clicks: list[Click] = []
    for number, record in _records(path):
        if isinstance(record, Click):
            clicks.append(record)
        elif record.id in shown:
            hint = "Keep one of the two lines."
            raise BadFile(path, f"the list {record.id} comes twice", hint, number)
        else:
            shown[record.id] = record
    clicked: dict[str, set[str]] = {}
    strays = 0
    for click in clicks:
        if click.id in shown and click.document in shown[click.id].documents:
            clicked.setdefault(click.id, set()).add(click.document)
        else:
            strays += 1
    return Clicks(
        tuple(shown.values()), {one: frozenset(on) for one, on in clicked.items()}, strays
    )


def _records(path: Path) -> Iterator[tuple[int, ShownList | Click]]:
    for number, line in numbered(path):
        try:
            found = _RECORD.validate_json(checked(line))
        except (Malformed, ValidationError) as exc:
            said = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else exc
            hint = "Remove the line: a writer that was killed may have cut it off."
            raise BadFile(path, f"the line is not a record ({said})", hint, number) from exc
        if isinstance(found, ShownList) and not (
            len(found.documents) == len(found.teams)
            and all(0 <= team < len(found.arms) for team in found.teams)
        ):
            problem = "its teams are not those of its documents and arms"
            raise BadFile(path, problem, "Restore the line, or remove it.", number)
        yield number, found
