"""Live traffic that was taken in, as evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import BadFile
from harness.core.evidence import ArmResult, Traffic
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.shadow.counts import traffic as counted
from harness.shadow.log import read_logs
from harness.stages.custody.receipts import read_manifest
from harness.stages.layout import Layout

FOLDER = "traffic"
FORMAT = 4


def traffic(layout: Layout, control: str, candidate: str, logs: Sequence[Path]) -> Traffic:
    """Write what the logs have of two arms, known by the fingerprints of their indexes here.

    Raises:
        IndexNotReady: an arm has no index here, so no one knows its fingerprint.
        BadFile: a folder holds no log, or a line is not a record.
        EvidenceError: an attempt is there twice, or none is there.
    """
    first, *more = logs
    by = [read_manifest(layout, arm).fingerprint for arm in (control, candidate)]
    found = counted(read_logs(first, *more), control=by[0], candidate=by[1])
    write_json(path_of(layout, control, candidate), {"format": FORMAT, "by": by, **_to_json(found)})
    return found


def path_of(layout: Layout, control: str, candidate: str) -> Path:
    """Say where what was taken in lies; it differs from day to day, and is never tracked."""
    return layout.today / FOLDER / f"{control}~{candidate}.json"


def taken_in(layout: Layout) -> tuple[Path, ...]:
    """List what was taken in."""
    return tuple(sorted((layout.today / FOLDER).glob("*.json")))


def read_traffic(layout: Layout, control: ArmResult, candidate: ArmResult) -> Traffic | None:
    """Read what live traffic said of two arms; None where none of these indexes was taken in.

    Raises:
        BadFile: the file is not what ``harness traffic`` wrote.
    """
    path = path_of(layout, control.arm, candidate.arm)
    if not path.is_file():
        return None
    by = [side.manifest.fingerprint for side in (control, candidate)]
    try:
        written = json_file(path)
        if written.pop("format") != FORMAT:
            raise ValueError("of another format")  # noqa: TRY301  one way out for all that is wrong
        same = written.pop("by") == by
        found = _from_json(written)
    except (ValueError, TypeError, KeyError) as exc:
        hint = "Take the log in again: harness traffic"
        raise BadFile(path, f"is not imported traffic ({exc})", hint) from exc
    return found if same else None


def _to_json(found: Traffic) -> dict[str, Any]:
    return {
        "attempted": found.attempted,
        "passed_over": dict(found.passed_over),
        "asked": found.asked.tolist(),
        "largest_client": found.largest_client,
        "unnamed": found.unnamed,
        "failed": found.failed.astype(int).tolist(),
        "failed_at": found.failed_at.tolist(),
        "failures": dict(found.failures),
        "overlap": {str(k): values.tolist() for k, values in found.overlap.items()},
        "overlap_at": {str(k): at.tolist() for k, at in found.overlap_at.items()},
        "control_ns": found.control_ns.tolist(),
        "candidate_ns": found.candidate_ns.tolist(),
        "timed_at": found.timed_at.tolist(),
        "since": found.since,
        "until": found.until,
    }


def _from_json(written: dict[str, Any]) -> Traffic:
    return Traffic(
        attempted=int(written["attempted"]),
        passed_over=dict(written["passed_over"]),
        asked=np.array(written["asked"], dtype=np.int64),
        largest_client=int(written["largest_client"]),
        unnamed=int(written["unnamed"]),
        failed=np.array(written["failed"], dtype=bool),
        failed_at=np.array(written["failed_at"], dtype=np.int64),
        failures=dict(written["failures"]),
        overlap={
            int(k): np.array(values, dtype=np.float64) for k, values in written["overlap"].items()
        },
        overlap_at={
            int(k): np.array(at, dtype=np.int64) for k, at in written["overlap_at"].items()
        },
        control_ns=np.array(written["control_ns"], dtype=np.int64),
        candidate_ns=np.array(written["candidate_ns"], dtype=np.int64),
        timed_at=np.array(written["timed_at"], dtype=np.int64),
        since=str(written["since"]),
        until=str(written["until"]),
    )
