"""DVC's account of this machine, kept apart from the tracked record of what came out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.core.durable.locks import held
from harness.core.files import write_text
from harness.core.reading import text_of
from harness.stages.custody.dvc_lock import LOCK, local

SAVED = Path(".dvc") / "tmp" / f"{LOCK}.record"
"""The tracked record while DVC works; left behind only by a process that was killed."""

FOREVER_S = float("inf")
"""A second run of the pipeline waits for the first, which may take minutes."""


@contextmanager
def local_lock(root: Path) -> Iterator[None]:
    """Let DVC work on this machine's ``dvc.lock``, and put the tracked one back afterwards.

    So a run of the pipeline leaves the tracked file as it was, whatever this machine's processor
    and packages made of the numbers. A record that a killed process left aside is put back first.
    """
    tracked, saved, mine = root / LOCK, root / SAVED, local(root)
    with held(mine, patience_s=FOREVER_S):
        if saved.is_file():
            saved.replace(tracked)
        recorded = text_of(tracked) if tracked.is_file() else None
        if recorded is not None:
            write_text(saved, recorded)
        try:
            if mine.is_file():
                write_text(tracked, text_of(mine))
            yield
        finally:
            if tracked.is_file():
                write_text(mine, text_of(tracked))
            if recorded is not None:
                saved.replace(tracked)
