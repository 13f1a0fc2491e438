"""Parts of interrupted work: the young ones stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

from harness.pipeline.layout import drop_older


def test_what_is_older_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name, hours in (("young", 0.5), ("old", 1.5)):
        path = tmp_path / name
        path.write_text(name)
        then = time.time() - hours * 3600
        os.utime(path, (then, then))
    drop_older(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["young"]
    drop_older(tmp_path / "absent", 1)
