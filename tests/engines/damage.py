"""Damage to a file that somebody may still have mapped: a new file takes its place."""

from __future__ import annotations

from pathlib import Path


def overwrite(path: Path, content: bytes | bytearray) -> None:
    """Replace a file's content; whoever has the old file open keeps it whole."""
    path.unlink()
    path.write_bytes(content)
