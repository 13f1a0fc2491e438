"""A clock that no other program slows: an answer takes a millisecond, and what a test adds."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from harness.replay import drive
from harness.replay.race import CallCost, Meter, ProcessCounters

ANSWER_NS, SPREAD_NS, READING_NS = 1_000_000, 20_000, 100


class Steady:
    """Nanoseconds that pass only while an arm answers; no two answers take the same."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._answering = False
        self._rng = random.Random(5)

    def passes(self, ns: int) -> None:
        """Wait some time, as for an engine that thinks."""
        self._now_ns += ns

    def read_by_turns(self) -> int:
        """Tell the time before an answer, and then after it."""
        if self._answering:
            self._now_ns += ANSWER_NS + self._rng.randrange(SPREAD_NS)
        self._answering = not self._answering
        self._now_ns += READING_NS
        return self._now_ns


CLOCK = Steady()


def _taken(
    meter: Meter, before: ProcessCounters, after: ProcessCounters, elapsed_ns: int
) -> CallCost:
    """Nobody waits for a processor."""
    del meter, before, after
    return CallCost(0, elapsed_ns, 0)


@contextmanager
def steady() -> Iterator[None]:
    """Make a race of this process read ``CLOCK``."""
    with (
        patch.object(drive, "perf_counter_ns", CLOCK.read_by_turns),
        patch.object(Meter, "taken", _taken),
    ):
        yield
