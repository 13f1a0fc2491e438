"""The control's clock: time in which a client does not take its answer is not the control's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns


class Clock:
    """Nanoseconds, always above 0, without those of stalls."""

    def __init__(self, ticks: Callable[[], int] = perf_counter_ns) -> None:
        self._ticks = ticks
        self._start = ticks() - 1
        self.stalled = 0
        """Nanoseconds of all stalls."""
        self._since = 0

    def now(self) -> int:
        """Give the time; it stands still during a stall."""
        return (self._since or self._ticks()) - self._start - self.stalled

    @contextmanager
    def stall(self) -> Iterator[None]:
        """Stand still."""
        self._since = self._ticks()
        try:
            yield
        finally:
            self.stalled += self._ticks() - self._since
            self._since = 0
