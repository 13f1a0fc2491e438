"""When each arm was replayed: it rests on a clock, so it lies beside what is the same every day.

A run and its receipt are equal whenever they are made (docs/decisions/0001), so they cannot tell
how old they are. The time stands in a file of its own, with the digest of the run that it is of.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_json
from harness.policy.age import check_age
from harness.stages.layout import Layout


def note_replayed(layout: Layout, arm: str, at: datetime) -> None:
    """Note that the run of ``arm`` which is there was asked from ``at`` on, aware of its zone."""
    noted = {"at": at.isoformat(timespec="seconds"), "run": digest.of_file(layout.run(arm))}
    write_json(layout.replayed(arm), noted)


def asked_since(began: datetime, parts: Path) -> datetime:
    """Give when the oldest answer of a replay was asked for, that ``began`` or went on then.

    ``parts`` is the folder of what an earlier one, which was killed, left.
    """
    times = (path.stat().st_mtime for path in parts.rglob("*") if path.is_file())
    return min((began, *(datetime.fromtimestamp(time, UTC) for time in times)))


def replayed_at(layout: Layout, arm: str) -> str | None:
    """Read when the run of ``arm`` was asked, in ISO 8601; None where nobody noted it of this run.

    Raises:
        BadFile: the note is not one of ours.
    """
    path = layout.replayed(arm)
    if not path.is_file() or not layout.run(arm).is_file():
        return None
    try:
        noted = json.loads(path.read_text(encoding="utf-8"))
        at, run = str(noted["at"]), str(noted["run"])
    except (ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"does not say when ({exc!r})", _cure(layout, arm)) from exc
    return at if run == digest.of_file(layout.run(arm)) else None


def check_replayed(
    layout: Layout, arms: Sequence[str], *, now: datetime, evidence_days: int
) -> None:
    """Refuse runs that are too old, or of which nobody knows how old they are.

    Raises:
        EvidenceError: as said.
        BadFile: a note is not one of ours.
    """
    for arm in arms:
        at = replayed_at(layout, arm)
        if at is None:
            raise EvidenceError(
                f"{layout.replayed(arm)}: does not say when {layout.run(arm)} was made, so it may"
                f" be of any age. {_cure(layout, arm)}"
            )
        try:
            check_age(at, now=now, evidence_days=evidence_days)
        except EvidenceError as exc:
            raise EvidenceError(f"{layout.run(arm)}: {exc}. {_cure(layout, arm)}") from exc


def _cure(layout: Layout, arm: str) -> str:
    return f"Run: harness replay --dataset {layout.root.name} --arm {arm}"
