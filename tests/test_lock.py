"""``dvc.lock`` records the code, data and settings that are here, so a clone reproduces it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
MADE = ("build/", "reports/")
HINT = "run: python3 run.py demo --record, and commit dvc.lock and reports/record"


def lock() -> dict[str, dict[str, list[dict[str, str]]]]:
    read: dict[str, dict[str, dict[str, list[dict[str, str]]]]] = yaml.safe_load(
        (ROOT / "dvc.lock").read_text(encoding="utf-8")
    )
    return read["stages"]


def md5(path: Path) -> str:
    """Digest of a file, or of a folder as DVC takes it: its files' digests and names, sorted."""
    if path.is_file():
        return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    files = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    rows = [{"md5": md5(p), "relpath": p.relative_to(path).as_posix()} for p in files]
    rows.sort(key=lambda row: row["relpath"])
    listing = json.dumps(rows, sort_keys=True)
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def recorded() -> list[tuple[str, str]]:
    return sorted({
        (dep["path"], dep["md5"])
        for stage in lock().values()
        for dep in stage["deps"]
        if not f"{dep['path']}/".startswith(MADE)
    })


@pytest.mark.parametrize(("path", "digest"), recorded())
def test_a_dependency_is_what_the_lock_was_made_with(path: str, digest: str) -> None:
    assert md5(ROOT / path) == digest, f"{path} changed since; {HINT}"


def test_every_stage_and_arm_is_in_the_lock() -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    wanted = set()
    for name, stage in stages.items():
        matrix = stage.get("matrix", {})
        sets = params["datasets"] if "dataset" in matrix else [""]
        arms = params["arms"] if "arm" in matrix else [""]
        wanted |= {
            f"{name}@{'-'.join(filter(None, (dataset, arm)))}" if dataset else name
            for dataset in sets
            for arm in arms
        }
    assert wanted == set(lock()), HINT


def test_no_time_is_in_the_lock() -> None:
    outs = [out["path"] for stage in lock().values() for out in stage["outs"]]
    assert not [path for path in outs if path.startswith("perf/") or path.endswith(".html")]
