"""Arms made for tests: one of a table, a small engine with a build, a service of virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Document, Query
from harness.core.run import Row, Status
from harness.load.workers import Arrivals, LoadWorker, ServedArrival, TrialPlan
from harness.replay.race import Expected, shown
from harness_engines import contract


def queries(count: int) -> list[Query]:
    return [Query(f"q{at:02}", f"question {at:02}") for at in range(count)]


def hits(*doc_ids: str) -> tuple[Hit, ...]:
    return tuple(Hit(doc_id, 1 / at, 9 / at) for at, doc_id in enumerate(doc_ids, start=1))


@dataclass
class Table:
    """Answers each text from a table, else with one document that is named after it."""

    name: str = "table"
    answers: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    diary: list[tuple[str, str, int]] = field(default_factory=list)
    """Arm, text and k of every question, in order; arms may share one."""

    @property
    def manifest(self) -> Manifest:
        return Manifest(self.name, "1", 3, "c0ffee", "5e77")

    def shows(self, *doc_ids: str) -> Answer:
        """Make an answer of its own."""
        return Answer(hits(*doc_ids), self.manifest.fingerprint)

    def search(self, text: str, k: int) -> Answer:
        self.diary.append((self.name, text, k))
        if text in self.answers:
            return self.answers[text]()  # type: ignore[return-value]  # also what is no answer
        return self.shows(f"about {text}")

    def asked(self) -> Sequence[str]:
        """Every text that this arm was asked, in order."""
        return [text for name, text, _ in self.diary if name == self.name]


def raising(error: BaseException) -> Callable[[], object]:
    def answer() -> object:
        raise error

    return answer


NAME, VERSION = "toy", "1"
FILE = "words.json"
Words = dict[str, list[str]]
Answers = Callable[["ToySearcher", str, int], Answer]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def keeps(searcher: ToySearcher, text: str, k: int) -> Answer:
    """Order documents by the share of the query's words that they hold, and by id."""
    wanted = set(words(text))
    counts = {doc_id: len(wanted & {*known}) for doc_id, known in searcher.known.items()}
    found = sorted((-count, doc_id) for doc_id, count in counts.items() if count)[:k]
    hits = tuple(Hit(doc_id, -count / len(wanted), -count) for count, doc_id in found)
    return Answer(hits, searcher.manifest.fingerprint)


@dataclass
class ToySearcher:
    """The open index; ``asked`` counts what it was asked."""

    manifest: Manifest
    known: Words
    answers: Answers
    asked: int = 0

    def search(self, text: str, k: int) -> Answer:
        self.asked += 1
        return self.answers(self, text, k)


@dataclass
class Toy:
    """An engine whose parts can be exchanged."""

    answers: Answers = keeps
    opened: Callable[[Path], None] = field(default=lambda _: None)
    """What happens to the folder of an index that is opened."""
    built: Callable[[Manifest], Manifest] = field(default=lambda made: made)
    """What ``build`` gives of the manifest that was written."""
    checks: bool = True
    """Whether ``open`` looks at the manifest."""
    takes: Callable[[list[Document]], list[Document]] = field(default=lambda given: given)
    """Which documents are written, and in what order."""

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        def fill(passing: Iterable[Document]) -> None:
            kept = self.takes(list(passing))
            known = [(one.doc_id, words(f"{one.title} {one.text}")) for one in kept]
            write_json(index / FILE, {"known": known})

        made = contract.record(index, documents, fill, engine=NAME, version=VERSION, settings={})
        return self.built(made)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        self.opened(index)
        if self.checks:
            made = contract.read(index)
            contract.check_made_by(index, made, engine=NAME, version=VERSION, settings={})
            known = dict(json_file(index / FILE)["known"])
            contract.check_count(index, made, len(known))
        else:
            made = Manifest(NAME, VERSION, 0, "", "")
            known = {}
        yield ToySearcher(made, known, self.answers)


S, MS = 1_000_000_000, 1_000_000
FINGERPRINT = Manifest("virtual", "1", 1, "c0ffee", "5e77").fingerprint
Service = Callable[[int], int]
"""When an answer is there, by when it was asked; both nanoseconds."""


@dataclass
class Hand:
    """A clock that moves only when someone waits or is served."""

    at_ns: int = 0
    late_ns: int = 0
    """How much every wait oversleeps."""
    cpu_ns: int = 7

    def now_ns(self) -> int:
        return self.at_ns

    def wait_until(self, at_ns: int) -> int:
        self.at_ns = max(self.at_ns, at_ns) + self.late_ns
        return self.cpu_ns


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
    slices = (("short",), ("long",), ())
    return tuple(
        Query(f"q{at:03}", f"text {at:03}", slices[at % len(slices)]) for at in range(number)
    )


def expected(queries: Sequence[Query]) -> dict[str, Expected]:
    rows = (
        Row(query.query_id, Status.ANSWERED, (Hit(query.text, 1.0, 1.0),), FINGERPRINT)
        for query in queries
    )
    return {row.query_id: shown(row, 5) for row in rows}


def plan_of(
    queries: tuple[Query, ...], arrivals: Arrivals | None, seconds: float, **changed: int
) -> TrialPlan:
    picks = tuple(arrivals.picks.tolist()) if arrivals else tuple(range(len(queries)))
    usual = {"k": 5, "cold": 0, "warm": 0, "time_limit_ns": 3600 * S}
    return TrialPlan(
        queries=queries,
        picks=picks,
        offsets_ns=tuple(arrivals.offsets_ns.tolist()) if arrivals else None,
        seconds=seconds,
        expected=expected(queries),
        **usual | changed,
    )


def serve(
    plan: TrialPlan, service: Service, *, workers: int = 1, late_ns: int = 0
) -> list[ServedArrival]:
    """Let virtual workers, each with its own hand on the clock, take arrivals as they are free."""
    ticket = count()
    hands = [Hand(late_ns=late_ns) for _ in range(workers)]
    crew = [
        LoadWorker(plan, Virtual(hand, service), lambda: next(ticket), hand, 0) for hand in hands
    ]
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
