"""Open-loop load test: queries arrive on a schedule drawn beforehand (method, section 5).

A race sends the next query when the last was answered. An engine that stops for a second then gets
no query for a second, and one slow answer stands for all that would have waited. This is called
coordinated omission (Gil Tene, "How NOT to Measure Latency", 2015). Here each arrival has its
intended start, drawn beforehand. Workers take arrivals in order. A worker that is free early waits
for the intended start, and one that is late begins at once. The response time counts from the
intended start in either case. Without a schedule the same workers run a closed loop, for the
number beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from harness.core.engine import Searcher
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.replay.ask import TimedOutcome, observe
from harness.replay.race import Expected, shown

NS_PER_S = 1_000_000_000
COARSE_NS = 200_000
"""How long before the intended start a sleeping worker wakes up: more than sleep oversleeps."""


class Clock(Protocol):
    """What time it is, and waiting; a test passes one that it turns by hand."""

    def now_ns(self) -> int:
        """Nanoseconds since some moment that is the same for all processes of a machine."""
        ...

    def wait_until(self, at_ns: int) -> int:
        """Come back at ``at_ns`` or as soon after it as can be; give the processor time spent."""
        ...


class WallClock:
    """``perf_counter_ns``; sleeps most of a wait and looks at the clock for the rest."""

    def now_ns(self) -> int:
        return time.perf_counter_ns()

    def wait_until(self, at_ns: int) -> int:
        """Give up the processor, and the interpreter, between two looks at the clock."""
        spent_ns = time.thread_time_ns()
        coarse_ns = at_ns - COARSE_NS - time.perf_counter_ns()
        if coarse_ns > 0:
            time.sleep(coarse_ns / NS_PER_S)
        while time.perf_counter_ns() < at_ns:
            time.sleep(0)
        return time.thread_time_ns() - spent_ns


@dataclass(frozen=True, slots=True)
class Plan:
    """One trial as every worker knows it."""

    queries: tuple[Query, ...]
    picks: tuple[int, ...]
    """Row of ``queries`` that each arrival asks."""
    offsets_ns: tuple[int, ...] | None
    """Intended starts after the trial's start, shape (arrivals,); None for a closed loop, which
    goes through ``picks`` again and again."""
    seconds: float
    """How long a closed loop runs; an open one is given up ``PATIENCE`` times as late."""
    k: int
    time_limit_ns: int
    expected: Mapping[str, Expected]
    """By query id, from the arm's run: an engine that answers otherwise is not measured."""
    cold: int
    """Queries of each worker right after opening; their times are kept apart."""
    warm: int
    """Queries of each worker after these; their times are not kept."""


PATIENCE = 2
"""A trial that takes this many times its length is given up; what was not asked is unserved."""


class Served(NamedTuple):
    """One arrival and its outcome; all times by the trial's clock."""

    arrival: int
    intended_ns: int
    taken_ns: int
    """When the worker was free and took it."""
    started_ns: int
    ended_ns: int
    status: Status
    stray: bool
    """Whether the answer was not the one in the arm's run."""

    @property
    def response_ns(self) -> int:
        """From the intended start to the hits shown: what a person waits."""
        return self.ended_ns - self.intended_ns

    @property
    def service_ns(self) -> int:
        """From the real start: what a closed loop would have seen."""
        return self.ended_ns - self.started_ns

    @property
    def lag_ns(self) -> int:
        """How late the generator itself was: the worker was free, the time had come, no start."""
        return self.started_ns - max(self.intended_ns, self.taken_ns)


class Worker:
    """One searcher of its own, that takes one arrival after the other."""

    def __init__(
        self,
        plan: Plan,
        searcher: Searcher,
        take: Callable[[], int],
        clock: Clock,
        start_ns: int,
    ) -> None:
        """``take`` gives the number of the next arrival, counted from 0 over all workers."""
        self._plan = plan
        self._searcher = searcher
        self._take = take
        self._clock = clock
        self._start_ns = start_ns
        self._until_ns = start_ns + int(plan.seconds * NS_PER_S)
        self.waiting_cpu_ns = 0
        """Processor time that was spent on waiting, which is the harness's own."""

    def step(self) -> Served | None:
        """Serve the next arrival; None where there is none left, or the trial is given up."""
        taken_ns = self._clock.now_ns()
        plan = self._plan
        arrival = self._take()
        if plan.offsets_ns is None:
            if taken_ns >= self._until_ns:
                return None
            intended_ns = taken_ns
        else:
            length_ns = self._until_ns - self._start_ns
            if arrival >= len(plan.offsets_ns) or taken_ns > self._start_ns + PATIENCE * length_ns:
                return None
            intended_ns = self._start_ns + plan.offsets_ns[arrival]
            if taken_ns < intended_ns:
                self.waiting_cpu_ns += self._clock.wait_until(intended_ns)
        query = plan.queries[plan.picks[arrival % len(plan.picks)]]
        started_ns = self._clock.now_ns()
        seen = self._ask(query)
        ended_ns = self._clock.now_ns()
        return Served(
            arrival,
            intended_ns,
            taken_ns,
            started_ns,
            ended_ns,
            seen.row.status,
            self._is_stray(query, seen.row),
        )

    def warm_up(self, number: int) -> list[tuple[int, int]]:
        """Ask what comes right after opening; give row of the query and time of the cold ones.

        ``number`` is the worker's own, so that workers begin at different queries. Failures
        are left out: they show again in the trial.
        """
        plan = self._plan
        cold = []
        for at in range(plan.cold + plan.warm):
            row = plan.picks[(number * (plan.cold + plan.warm) + at) % len(plan.picks)]
            seen = self._ask(plan.queries[row])
            if at < plan.cold and seen.row.status is Status.ANSWERED:
                cold.append((row, seen.elapsed_ns))
        return cold

    def _ask(self, query: Query) -> TimedOutcome:
        return observe(self._searcher, query, self._plan.k, self._plan.time_limit_ns)

    def _is_stray(self, query: Query, row: Row) -> bool:
        """Tell whether an answer is another than the run's; what failed or came late is none."""
        if row.status is not Status.ANSWERED:
            return False
        return shown(row, self._plan.k) != self._plan.expected[query.query_id]
