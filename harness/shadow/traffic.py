"""Live traffic that was taken in, as evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import BadFile
from harness.core.evidence import ArmResult, Traffic
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import read_manifest
from harness.shadow.counts import traffic as counted
from harness.shadow.log import read_logs

FOLDER = "traffic"
FORMAT = 4


def traffic(layout: Layout, control: str, candidate: str, logs: Sequence[Path]) -> Traffic:
    """Write what the logs have of two arms, known by the fingerprints of their indexes here."""
    first, *more = logs
    by = [read_manifest(layout, arm).fingerprint for arm in (control, candidate)]
    found = counted(read_logs(first, *more), control=by[0], candidate=by[1])
    write_json(path_of(layout, control, candidate), {"format": FORMAT, "by": by, **_to_json(found)})
    return found


def path_of(layout: Layout, control: str, candidate: str) -> Path:
    """Return where what was taken in lies; it differs from day to day, and is never tracked."""
    return layout.today / FOLDER / f"{control}~{candidate}.json"


def taken_in(layout: Layout) -> tuple[Path, ...]:
    """List what was taken in."""
    return tuple(sorted((layout.today / FOLDER).glob("*.json")))


def read_traffic(layout: Layout, control: ArmResult, candidate: ArmResult) -> Traffic | None:
    """Read what live traffic said of two arms; None where none of these indexes was taken in."""
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
        hint = "Take the log in again: harness shadow traffic"
        raise BadFile(path, f"is not imported traffic ({exc})", hint) from exc
    return found if same else None


ARRAYS = {
    "asked": np.int64, "failed": np.bool_, "failed_at": np.int64, "control_ns": np.int64,
    "candidate_ns": np.int64, "timed_at": np.int64,
}  # fmt: skip
BY_DEPTH = {"overlap": np.float64, "overlap_at": np.int64}


def _to_json(found: Traffic) -> dict[str, Any]:
    return {of.name: _plain(getattr(found, of.name)) for of in fields(found)}


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return (value.astype(int) if value.dtype == np.bool_ else value).tolist()
    return {str(k): _plain(of) for k, of in value.items()} if isinstance(value, Mapping) else value


def _from_json(written: dict[str, Any]) -> Traffic:
    arrays: dict[str, Any] = {
        name: np.array(written[name], dtype=of) for name, of in ARRAYS.items()
    }
    by_depth = {
        name: {int(k): np.array(values, dtype=of) for k, values in written[name].items()}
        for name, of in BY_DEPTH.items()
    }
    return Traffic(**{**written, **arrays, **by_depth})
