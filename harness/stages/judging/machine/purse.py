"""What a judge has cost, kept on the disk, and when its next request may be sent.

A cost is reserved before a request and corrected after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.core.durable.locks import held
from harness.core.errors import BadFile, HarnessError
from harness.core.files import write_json
from harness.core.formats import json_file

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
FILE = "spent.json"


class OverBudget(HarnessError):
    """The next request may cost more than is left."""


@dataclass(frozen=True, slots=True)
class Purse:
    """The budget of one judge, over all commands and processes.

    A command that is killed in the middle of a request leaves that request's most counted.
    """

    path: Path
    budget: float

    @property
    def spent(self) -> float:
        """What was spent so far.

        Raises:
            BadFile: the file is damaged.
        """
        if not self.path.exists():
            return 0.0
        try:
            return float(json_file(self.path)["spent"])
        except (OSError, ValueError, TypeError, KeyError) as exc:
            remedy = 'Write {"spent": AMOUNT} into it, with what the judge has cost so far'
            raise BadFile(self.path, f"it is damaged ({exc})", remedy) from exc

    def reserve(self, most: float) -> None:
        """Count a request before it is sent.

        Raises:
            OverBudget: with it, the judge could cost more than its budget.
        """
        self._change(lambda spent: self._within(spent, most))

    def correct(self, most: float, cost: float) -> None:
        """Put what a request did cost in the place of what was reserved for it."""
        self._change(lambda spent: max(0.0, spent - most + cost))

    def _within(self, spent: float, most: float) -> float:
        if spent + most > self.budget:
            raise OverBudget(
                f"the judge has cost {spent:.4f} of its budget of {self.budget:g}, and the next"
                f" request may cost {most:.4f}. Raise budget in its file; the same command goes on"
            )
        return spent + most

    def _change(self, by: Callable[[float], float]) -> None:
        with held(self.path):
            write_json(self.path, {"spent": by(self.spent)}, durable=True)


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
