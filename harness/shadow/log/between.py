"""Which engines a log compares, by the names that people know them by, in a file beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BadFile
from harness.core.files import write_json
from harness.core.formats import json_file

FILE = "between.json"


class Between(NamedTuple):
    """Names, or addresses, of the two sides; empty where the log does not say."""

    control: str = ""
    candidate: str = ""

    @property
    def said(self) -> str:
        """Both in words, empty where one is not known."""
        return f"{self.control} → {self.candidate}" if all(self) else ""


def write(folder: Path, between: Between) -> None:
    """Note what the log in ``folder`` compares.

    Raises:
        BadFile: the file cannot be written.
    """
    try:
        write_json(folder / FILE, between._asdict())
    except OSError as exc:
        problem = f"it cannot be written ({exc.strerror})"
        raise BadFile(folder / FILE, problem, "Free the space, or the rights.") from exc


def read(folders: Sequence[Path]) -> Between:
    """Tell what the logs in ``folders`` compare; nothing where they differ or do not say.

    Raises:
        BadFile: a file is not as it was written.
    """
    found = {_one(folder / FILE) for folder in folders if (folder / FILE).is_file()}
    return found.pop() if len(found) == 1 else Between()


def _one(file: Path) -> Between:
    hint = "Remove it: the pages then name no engine"
    try:
        known = json_file(file)
        between = Between(known["control"], known["candidate"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise BadFile(file, f"does not name two engines ({exc!r})", hint) from exc
    if not all(isinstance(name, str) for name in between):
        raise BadFile(file, "does not name two engines", hint)
    return between
