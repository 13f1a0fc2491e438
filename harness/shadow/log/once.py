"""Each attempt counts once, in whatever pieces and under whatever names its log is given."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from harness.core.errors import EvidenceError
from harness.shadow.log.record import Observation


class Numbers:
    """Whole numbers that were taken, as ranges: numbers without gaps cost nothing to remember."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """Each one past its range."""

    def __len__(self) -> int:
        """How many ranges are remembered."""
        return len(self._starts)

    def take(self, number: int) -> bool:
        """Take a number; False where it was taken before."""
        at = bisect_right(self._starts, number)
        if at and number < self._ends[at - 1]:
            return False
        joins_last = at > 0 and self._ends[at - 1] == number
        joins_next = at < len(self._starts) and self._starts[at] == number + 1
        if joins_last and joins_next:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif joins_last:
            self._ends[at - 1] = number + 1
        elif joins_next:
            self._starts[at] = number
        else:
            self._starts.insert(at, number)
            self._ends.insert(at, number + 1)
        return True


class Once:
    """Refuses an observation that was there before, of logs that are merged by their time.

    Two logs are one where both hold one query of the same nanosecond.
    """

    def __init__(self) -> None:
        self._taken: defaultdict[str, Numbers] = defaultdict(Numbers)
        self._moment = 0
        self._then: dict[str, Observation] = {}

    def take(self, one: Observation) -> None:
        """Take the next one.

        Raises:
            EvidenceError: it was there before, or its log is there under another writer's name.
        """
        if not self._taken[one.writer].take(one.number):
            raise EvidenceError(
                f"attempt {one.number} of the log {one.writer} is there twice; give each log once"
            )
        if one.at != self._moment:
            self._moment, self._then = one.at, {}
        first = self._then.setdefault(one.query, one)
        if first.writer != one.writer:
            raise EvidenceError(
                f"attempt {one.number} of the log {one.writer} is attempt {first.number} of the"
                f" log {first.writer}: the same query at the same nanosecond; give each log once"
            )
