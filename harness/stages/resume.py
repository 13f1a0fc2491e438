"""How long the parts of interrupted work are worth going on with."""

from __future__ import annotations

import time
from pathlib import Path

HOUR_S = 3600.0


def drop_older(folder: Path, hours: float) -> None:
    """Remove the files in ``folder`` that were written more than so many hours ago."""
    for part in folder.glob("*"):
        if time.time() - part.stat().st_mtime > hours * HOUR_S:
            part.unlink()
