"""Where the evidence lies that a ``harness run`` left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.core.errors import BadFile
from harness.stages.layout import Layout


def left_by_run(out: Path) -> Layout:
    """Say where the evidence of a ``harness run`` into ``out`` lies.

    Raises:
        BadFile: there is none.
    """
    work = out / "work"
    found = sorted(path for path in (work / "build").glob("*") if path.is_dir())
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise BadFile(
            work / "build",
            f"holds the evidence of {names}, where one data set is meant",
            "Give the folder that was --out of one harness run",
        )
    layout = Layout(found[0], work / "perf", work / "cache")
    beyond = layout.log_link.resolve() if layout.log_link.is_symlink() else None
    return replace(layout, shared_log=beyond) if beyond and beyond.is_file() else layout
