"""Progress of long work, on stderr: a bar on a terminal, occasional lines in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

LINE_S = 30.0
MINUTE_S = 60


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show how far ``doing`` is; any thread may tell the function of the block of an advance."""
    from rich.console import Console  # work that is quickly done does not wait for it

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console, doing, total).advance
        return
    from rich import progress as bars

    columns = (bars.TextColumn(doing), bars.BarColumn(), bars.MofNCompleteColumn())
    with bars.Progress(*columns, bars.TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda steps: bar.advance(task, steps)


class _Lines:
    def __init__(self, console: Console, doing: str, total: int) -> None:
        self._console, self._doing, self._total = console, doing, total
        self._done, self._began = 0, monotonic()
        self._last = self._began
        self._lock = Lock()

    def advance(self, steps: int) -> None:
        with self._lock:
            self._done += steps
            now = monotonic()
            if now - self._last >= LINE_S and self._done < self._total:
                self._last = now
                self._console.print(self._line(now), markup=False, highlight=False, soft_wrap=True)

    def _line(self, now: float) -> str:
        left_s = (now - self._began) * (self._total / max(self._done, 1) - 1)
        left = f"{left_s / MINUTE_S:.0f} min" if left_s >= MINUTE_S else f"{left_s:.0f} s"
        share = self._done / self._total
        return f"{self._doing}: {self._done:,} of {self._total:,} ({share:.0%}), about {left} left"
