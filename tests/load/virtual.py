"""A service of virtual time, and arms that a new process can be sent."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Query
from harness.core.run import Status
from harness.load.workers import LoadWorker, ServedArrival, TrialPlan, WallClock
from tests.make import arms

S, MS = 1_000_000_000, 1_000_000


MANIFEST = Manifest("virtual", "1", 1, "c0ffee", "5e77")


Service = Callable[[int], int]
"""When an answer is there, by when it was asked; both nanoseconds."""


@dataclass
class Hand(arms.Hand, WallClock):
    """A clock of workers that a test turns."""


@dataclass
class Virtual:
    """Answers every text with itself, at the time that ``service`` says."""

    clock: Hand
    service: Service
    broken: str = ""
    strange: str = ""
    asked: list[str] = field(default_factory=list)
    manifest = MANIFEST

    def search(self, text: str, k: int) -> Answer:
        del k
        self.asked.append(text)
        self.clock.at_ns = self.service(self.clock.at_ns)
        if text == self.broken:
            raise ValueError(text)
        shown = "strange" if text == self.strange else text
        return Answer((Hit(shown, 1.0, 1.0),), MANIFEST.fingerprint)


@dataclass(frozen=True)
class Opens:
    """Opens an arm that answers at once, or comes to grief."""

    trouble: str = ""

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        if self.trouble == "no index":
            raise IndexNotReady("toy: no index here. Run: harness stage index")
        if self.trouble == "killed":
            os._exit(9)
        yield Virtual(Hand(), steady(0))


def stalling(every_ns: int, stall_ns: int, service_ns: int) -> Service:
    """Stop for ``stall_ns`` at the beginning of each period; else work ``service_ns`` on it."""

    def done(now: int) -> int:
        left = service_ns
        while True:
            into = now % every_ns
            if into < stall_ns:
                now += stall_ns - into
                into = stall_ns
            step = min(left, every_ns - into)
            now, left = now + step, left - step
            if not left:
                return now

    return done


def steady(service_ns: int) -> Service:
    return lambda now: now + service_ns


def questions(number: int) -> tuple[Query, ...]:
    return tuple(Query(f"q{at:03}", f"text {at:03}") for at in range(number))


def plan_of(
    queries: tuple[Query, ...],
    arrivals: tuple[tuple[int, ...], tuple[int, ...]] | None,
    seconds: float,
    warm: int = 0,
) -> TrialPlan:
    """Plan intended starts, and the query that each asks; without them a closed loop."""
    offsets_ns, picks = arrivals or (None, tuple(range(len(queries))))
    return TrialPlan(
        queries=queries, picks=picks, offsets_ns=offsets_ns, seconds=seconds, k=5, warm=warm,
        time_limit_ns=3600 * S,
        expected={one.query_id: (Status.ANSWERED, (one.text,), MANIFEST.fingerprint)
                  for one in queries},
    )  # fmt: skip


def working(
    plan: TrialPlan, service: Service, late_ns: int = 0, broken: str = "", strange: str = ""
) -> tuple[LoadWorker, Virtual]:
    """Make a virtual worker, whose hand is on the clock, and its engine."""
    ticket, hand = count(), Hand(late_ns=late_ns)
    virtual = Virtual(hand, service, broken, strange)
    return LoadWorker(plan, virtual, lambda: next(ticket), hand), virtual


def serve(plan: TrialPlan, service: Service, late_ns: int = 0) -> list[ServedArrival]:
    """Run arrivals through a virtual worker as it is free."""
    worker, _ = working(plan, service, late_ns)
    return list(iter(worker.step, None))
