"""A service of virtual time, and arms that a new process can be sent."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.load.workers import LoadWorker, ServedArrival, TrialPlan, WallClock
from harness.replay.race import Expected, shown
from tests.make import arms

S, MS = 1_000_000_000, 1_000_000
FINGERPRINT = Manifest("virtual", "1", 1, "c0ffee", "5e77").fingerprint
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
    asked: list[str] = field(default_factory=list)
    broken: frozenset[str] = frozenset()
    strange: frozenset[str] = frozenset()

    @property
    def manifest(self) -> Manifest:
        return Manifest("virtual", "1", 1, "c0ffee", "5e77")

    def search(self, text: str, k: int) -> Answer:
        del k
        self.asked.append(text)
        self.clock.at_ns = self.service(self.clock.at_ns)
        if text in self.broken:
            raise ValueError(text)
        shows = "strange" if text in self.strange else text
        return Answer((Hit(shows, 1.0, 1.0),), self.manifest.fingerprint)


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


def expected(queries: Sequence[Query]) -> dict[str, Expected]:
    rows = (
        Row(query.query_id, Status.ANSWERED, (Hit(query.text, 1.0, 1.0),), FINGERPRINT)
        for query in queries
    )
    return {row.query_id: shown(row, 5) for row in rows}


Arrivals = tuple[tuple[int, ...], tuple[int, ...]]
"""Intended starts, and the query that each asks."""


def plan_of(
    queries: tuple[Query, ...], arrivals: Arrivals | None, seconds: float, **changed: int
) -> TrialPlan:
    offsets_ns, picks = arrivals or (None, tuple(range(len(queries))))
    usual = {"k": 5, "warm": 0, "time_limit_ns": 3600 * S}
    return TrialPlan(
        queries=queries,
        picks=picks,
        offsets_ns=offsets_ns,
        seconds=seconds,
        expected=expected(queries),
        **usual | changed,
    )


def serve(
    plan: TrialPlan, service: Service, *, workers: int = 1, late_ns: int = 0
) -> list[ServedArrival]:
    """Make virtual workers, each with its own hand on the clock, take arrivals as they are free."""
    ticket = count()
    hands = [Hand(late_ns=late_ns) for _ in range(workers)]
    crew = [LoadWorker(plan, Virtual(hand, service), lambda: next(ticket), hand) for hand in hands]
    found: list[ServedArrival] = []
    busy = list(range(workers))
    while busy:
        first = min(busy, key=lambda at: hands[at].at_ns)
        served = crew[first].step()
        if served is None:
            busy.remove(first)
        else:
            found.append(served)
    return sorted(found)


class Echo:
    """Answers each text with itself."""

    @property
    def manifest(self) -> Manifest:
        return Manifest("virtual", "1", 1, "c0ffee", "5e77")

    def search(self, text: str, k: int) -> Answer:
        del k
        return Answer((Hit(text, 1.0, 1.0),), FINGERPRINT)


@dataclass(frozen=True)
class Opens:
    """Opens ``Echo``, or comes to grief."""

    trouble: str = ""

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        if self.trouble == "no index":
            raise IndexNotReady("toy: no index here. Run: harness stage index")
        if self.trouble == "killed":
            os._exit(9)
        yield Echo()
