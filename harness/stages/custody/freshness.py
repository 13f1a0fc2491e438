"""When each arm was replayed: it rests on a clock, so it lies beside what is the same every day.

A run and its receipt are equal whenever they are made (docs/decisions/0001), so they cannot tell
how old they are. The time stands in a file of its own, with the digest of the run that it is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.core import digest
from harness.core.durable.strays import is_stray
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.policy.age import check_age, check_past
from harness.stages.layout import NOTES, STATED, Layout


def note_replayed(
    layout: Layout, arm: str, at: datetime, *, index_sha256: str | None = None
) -> None:
    """Note that the run of ``arm`` which is there was queried from ``at`` on, aware of its zone.

    ``index_sha256`` is of the index's files, as they were counted before it was queried.
    """
    noted = {
        "at": at.isoformat(timespec="seconds"),
        "run": digest.of_file(layout.run(arm)),
        "index": index_sha256,
    }
    write_json(layout.replayed(arm), noted)


def index_files(layout: Layout, arm: str) -> str | None:
    """Count the digest of an arm's index files; None where it has none, as one that runs elsewhere.

    What the engine says of its index (its fingerprint) has no part in it.
    """
    folder = layout.index(arm)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in NOTES)
    own = ((path.relative_to(folder), path) for path in files)
    named = [(at.as_posix(), digest.of_file(path)) for at, path in own if not is_stray(at)]
    counted = any(path.name not in STATED for path in files)
    return digest.of_json(named) if counted else None


def replayed_index(layout: Layout, arm: str) -> str | None:
    """Read the digest of the index files that the arm's run was queried from; None where not noted.

    Raises:
        BadFile: the note is not one of ours.
    """
    if replayed_at(layout, arm) is None:
        return None
    found = json_file(layout.replayed(arm)).get("index")
    return None if found is None else str(found)


def asked_since(began: datetime, parts: Path) -> datetime:
    """Give when the oldest answer of a replay was requested, that ``began`` or went on then.

    ``parts`` is the folder of what an earlier one, which was killed, left.
    """
    times = (path.stat().st_mtime for path in parts.rglob("*") if path.is_file())
    return min((began, *(datetime.fromtimestamp(time, UTC) for time in times)))


def replayed_at(layout: Layout, arm: str) -> str | None:
    """Read when the run of ``arm`` was queried, in ISO 8601; None where it was not noted.

    Raises:
        BadFile: the note is not one of ours, or names no time, or one of the future.
    """
    path = layout.replayed(arm)
    if not path.is_file() or not layout.run(arm).is_file():
        return None
    try:
        noted = json_file(path)
        at, run = str(noted["at"]), str(noted["run"])
    except (ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"does not say when ({exc!r})", _hint(layout, arm)) from exc
    if run != digest.of_file(layout.run(arm)):
        return None
    try:
        check_past(at)
    except EvidenceError as exc:
        raise BadFile(path, str(exc), _hint(layout, arm)) from exc
    return at


def check_replayed(
    layout: Layout, arms: Sequence[str], *, now: datetime, evidence_days: int
) -> None:
    """Refuse runs that are too old, or of which no one knows how old they are.

    Raises:
        EvidenceError: as said.
        BadFile: a note is not one of ours.
    """
    for arm in arms:
        at = replayed_at(layout, arm)
        if at is None:
            raise EvidenceError(
                f"{layout.replayed(arm)}: does not say when {layout.run(arm)} was made, so it may"
                f" be of any age. {_hint(layout, arm)}"
            )
        try:
            check_age(at, now=now, evidence_days=evidence_days)
        except EvidenceError as exc:
            raise EvidenceError(f"{layout.run(arm)}: {exc}. {_hint(layout, arm)}") from exc


def _hint(layout: Layout, arm: str) -> str:
    return f"Run: harness replay --dataset {layout.root.name} --arm {arm}"
