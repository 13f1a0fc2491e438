"""A progress bar on the error stream, for people only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show how far ``doing`` is; the block is given a function that is told each advance."""
    console = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda steps: bar.advance(task, steps)
