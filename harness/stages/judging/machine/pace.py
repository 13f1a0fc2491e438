"""When the next request may be sent: a rate, and pauses after failures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


@dataclass(slots=True)
class Pace:
    """Spaces requests evenly."""

    per_minute: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    next_s: float = 0.0

    def turn(self) -> None:
        """Wait until the next request may be sent."""
        now = self.clock()
        if self.next_s > now:
            self.sleep(self.next_s - now)
        self.next_s = max(self.next_s, now) + 60.0 / self.per_minute

    def pause(self, failures: int, told_s: float | None) -> None:
        """Wait after so many failures: as long as the server asks for, or twice as long each time.

        No pause is longer than a minute, whatever the server says.
        """
        own = FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10)
        self.sleep(min(LONGEST_PAUSE_S, own if told_s is None else told_s))
