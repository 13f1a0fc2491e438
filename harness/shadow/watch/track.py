"""A confidence sequence with its past, thinned so that it can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.core.scores import Estimate

MOST = 400
"""Points kept of one sequence; when there are more, every second one is dropped."""


@dataclass(frozen=True, slots=True)
class Point:
    """How sure a mean was after one attempt."""

    at: int
    """When it was, nanoseconds since 1970 in UTC."""
    estimate: Estimate


class Track:
    """Remembers what a sequence said, at evenly spread counts of values."""

    def __init__(self, said: Callable[[], Estimate]) -> None:
        self._said = said
        self._every = 1
        self._count = 0
        self._points: list[Point] = []
        self._at = 0

    def mark(self, at: int) -> None:
        """Note that the sequence took a value at ``at``, nanoseconds since 1970 in UTC."""
        self._count += 1
        self._at = at
        if self._count % self._every:
            return
        self._points.append(Point(at, self._said()))
        if len(self._points) > MOST:
            del self._points[::2]
            self._every *= 2

    @property
    def now(self) -> Estimate | None:
        """What it says now; None before the first value."""
        return self._said() if self._count else None

    @property
    def points(self) -> tuple[Point, ...]:
        """Its past, and how it stands now as the last point."""
        kept = self._points
        if self._count and (not kept or kept[-1].estimate.n != self._said().n):
            kept = [*kept, Point(self._at, self._said())]
        return tuple(kept)
