"""When each grade of a pool was given: a file beside the pool, for those that keep one."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BadFile
from harness.core.files import append_text
from harness.core.formats import json_of, moment_of
from harness.core.reading import Malformed, numbered

REMEDY = "Remove the line: times are for speed and drift alone"


class Given(NamedTuple):
    """A grade, and when it was given; None took it back."""

    query_id: str
    doc_id: str
    grade: int | None
    at: datetime


def beside(pool: Path) -> Path:
    """Where the times of a pool lie."""
    return pool.with_name(f"{pool.name}.times.jsonl")


def note(pool: Path, query_id: str, doc_id: str, grade: int | None) -> None:
    """Add a grade that was given now, where the pool keeps times."""
    path = beside(pool)
    if path.is_file():
        said = {"at": datetime.now(UTC).isoformat(), "query_id": query_id, "doc_id": doc_id}
        append_text(path, json.dumps(said | {"grade": grade}, ensure_ascii=False) + "\n")


def read(pool: Path) -> tuple[Given, ...]:
    """Read the times of a pool, the earliest first; none where it keeps none.

    Raises:
        BadFile: a line is malformed.
    """
    path = beside(pool)
    if not os.path.lexists(path):
        return ()
    found = []
    for number, line in numbered(path):
        try:
            row = json_of(line)
            grade = row["grade"]
            if type(grade) is not int and grade is not None:
                raise ValueError("grade is not an integer")  # noqa: TRY301  one way out
            at = moment_of(row["at"])
            found.append(Given(str(row["query_id"]), str(row["doc_id"]), grade, at))
        except (Malformed, ValueError, TypeError, KeyError) as exc:
            raise BadFile(path, f"it is not the time of a grade ({exc})", REMEDY, number) from exc
    return tuple(sorted(found, key=lambda one: one.at))
