"""Open-loop load tests, and where one leaves its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.pipeline.layout import Layout


def history_of(layout: Layout) -> Path:
    """Return where every trial under load is, a line each. It only grows."""
    return layout.today / "load.jsonl"


def page_of(layout: Layout) -> Path:
    """Return where the last load is, for people."""
    return layout.today / "load.html"


def trials_of(layout: Layout) -> Path:
    """Return where the trials of the last load are by themselves, a line each."""
    return layout.today / "load_trials.jsonl"


def receipt_of(layout: Layout) -> Path:
    """Return where it is told what was loaded, without the times: the same from day to day."""
    return layout.root / "load.json"
