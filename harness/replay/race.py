"""Race: several open arms asked the same texts, interleaved, one clock each (method, section 5).

This is what one process does. Closed loop: the next query comes when the last was answered, so a
race says how long an answer takes, not how long people wait at a rate of arrivals.
"""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import NamedTuple

from harness.core.engine import Searcher
from harness.core.errors import EvidenceError
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.replay.ask import observe
from harness.replay.collector import quiet
from harness.replay.race_texts import Texts
from harness.replay.reference import Reference
from harness.replay.surroundings import Surroundings, between, look

TASKS = Path("/proc/self/task")
RUN_QUEUE, IDLE = "run-queue wait", "wall time without processor time"
Expected = tuple[Status, tuple[str, ...], str]
"""How an answer ends, its documents in order, and who gives it."""
UNSEEN = 2
"""The repetition of variants."""
WHOLE, WHO = slice(None), slice(None, None, 2)
"""What of ``Expected`` must be the same."""


class Call(NamedTuple):
    """One timed answer."""

    arm: str
    query_id: str
    repetition: int
    """0 for the first time that the process saw the text, 1 for the second, 2 for a variant."""
    turn: int
    """How many arms had this text, this time, before this one."""
    elapsed_ns: int
    taken: Taken


@dataclass(frozen=True, slots=True)
class Lap:
    """What one process measured."""

    calls: tuple[Call, ...]
    """In the order in which they were made."""
    strays: Mapping[str, tuple[str, ...]]
    """Queries whose answer was not the one in the arm's run, by arm."""
    reference_ns: tuple[int, ...]
    """One time of the reference work beside each text."""
    surroundings: Surroundings
    counts: str
    """What ``Taken.waited_ns`` is on this system."""
    beside_ns: Mapping[str, int]
    """Processor time of other threads after the answers of an arm, before the next call; by arm."""


def race(
    searchers: Mapping[str, Searcher],
    expected: Mapping[str, Mapping[str, Expected]],
    texts: Texts,
    *,
    k: int,
    seed: int,
    process: int,
    time_limit_s: float,
    advance: Callable[[int], object],
) -> Lap:
    """Warm every arm up on texts of its own, then ask all texts once, and a few in two more ways.

    The first few come again, and then as variants that no process has asked before.

    Texts come in an order of this process. All arms have a text before the next one comes, in
    seeded order, so that a slow moment of the machine falls on all of them. From process to process
    that order moves on by one, so that each arm is first equally often. Each answer is
    compared with ``expected``, by arm and query; that to a variant must end alike and be given by
    the same engine.

    Raises:
        EvidenceError: the time of an answer is longer than the call that gave it, so it covers
            that of another arm.
    """
    rng = random.Random(f"{seed} {process}")
    names = sorted(searchers)
    strays: dict[str, set[str]] = {name: set() for name in names}
    calls: list[Call] = []
    reference_ns: list[int] = []
    beside = Beside(names)
    reference, meter = Reference(), Meter()
    limit_ns = int(time_limit_s * 1e9)

    def ask(name: str, query: Query, repetition: int, turn: int) -> Call:
        before, asked_ns = meter.read(), perf_counter_ns()
        beside.until(before)
        seen = observe(searchers[name], query, k, limit_ns)
        call_ns, after = perf_counter_ns() - asked_ns, meter.read()
        _check_clock(name, query, seen.elapsed_ns, call_ns)
        compared = WHO if repetition == UNSEEN else WHOLE
        if shown(seen.row, k)[compared] != expected[name][query.query_id][compared]:
            strays[name].add(query.query_id)
        taken = meter.taken(before, after, seen.elapsed_ns)
        beside.ended = name, after
        return Call(name, query.query_id, repetition, turn, seen.elapsed_ns, taken)

    def turns(query: Query) -> Iterator[tuple[int, str]]:
        order = random.Random(f"{seed} {query.query_id}").sample(names, len(names))
        first = process % len(order)
        return enumerate((*order[first:], *order[:first]))

    try:
        with quiet():
            for query in texts.warm:
                for turn, name in turns(query):
                    ask(name, query, 0, turn)
                advance(1)
            reference.work()
            beside = Beside(names)
            before = look()
            for repetition, again in enumerate((texts.timed, texts.repeated, texts.unseen)):
                for query in rng.sample(again, len(again)):
                    calls += [ask(name, query, repetition, turn) for turn, name in turns(query)]
                    if not repetition:
                        reference_ns.append(reference.time_ns())
                    advance(1)
            beside.until(meter.read())
            around = between(before, look())
    finally:
        meter.close()
    astray = {name: tuple(sorted(ids)) for name, ids in strays.items()}
    return Lap(tuple(calls), astray, tuple(reference_ns), around, meter.counts, beside.ns)


def _check_clock(name: str, query: Query, elapsed_ns: int, call_ns: int) -> None:
    if elapsed_ns > call_ns:
        raise EvidenceError(
            f"{name}: query {query.query_id} is said to have taken {elapsed_ns} ns in a call of"
            f" {call_ns} ns: the time of one arm covers another's. Time each arm by itself"
        )


def shown(row: Row, k: int) -> Expected:
    """Reduce an answer to what must be the same: its end, its documents in order, who answered."""
    documents = tuple(dict.fromkeys(hit.doc_id for hit in row.hits))
    return row.status, documents[:k], row.served_by


class Reading(NamedTuple):
    """Counters of this process so far."""

    waits_ns: Mapping[str, int]
    """By thread; empty where the system does not count them."""
    cpu_ns: int
    preempted: int
    others_ns: int = 0
    """Of ``cpu_ns``, that of all threads but the one that asks."""


class Beside:
    """Sums up the processor time of other threads after answers, by arm."""

    def __init__(self, names: Sequence[str]) -> None:
        self.ns = dict.fromkeys(names, 0)
        self.ended: tuple[str, Reading] | None = None
        """The arm that answered last, and the counters then."""

    def until(self, now: Reading) -> None:
        """Count what was used since the last answer."""
        if self.ended is not None:
            name, then = self.ended
            self.ns[name] += now.others_ns - then.others_ns
            self.ended = None


class Taken(NamedTuple):
    """What one call cost, beside its time."""

    waited_ns: int
    """Ready and not running, all threads together; more than the call's time where several were."""
    cpu_ns: int
    """Of all threads."""
    preempted: int
    """How often a thread was taken off its processor."""


class Meter:
    """Reads the counters of this process; keeps the files of its threads open."""

    def __init__(self, tasks: Path = TASKS) -> None:
        self._tasks = tasks
        self._files: dict[str, int] = {}
        self.counts = RUN_QUEUE if self._waits() else IDLE
        """Which of the two ``waited_ns`` is."""

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def read(self) -> Reading:
        """Read all counters now."""
        waits = self._waits() if self.counts == RUN_QUEUE else {}
        preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        cpu_ns = process_time_ns()
        return Reading(waits, cpu_ns, preempted, cpu_ns - thread_time_ns())

    def taken(self, before: Reading, after: Reading, elapsed_ns: int) -> Taken:
        """Tell what was taken between two readings around a call of ``elapsed_ns``.

        What waited in a thread that ended in between is not known.
        """
        cpu_ns = after.cpu_ns - before.cpu_ns
        preempted = after.preempted - before.preempted
        if self.counts == IDLE:
            return Taken(max(0, elapsed_ns - cpu_ns), cpu_ns, preempted)
        waited = sum(ns - before.waits_ns.get(of, 0) for of, ns in after.waits_ns.items())
        return Taken(waited, cpu_ns, preempted)

    def _waits(self) -> dict[str, int]:
        """Wait of each thread that is there."""
        try:
            with os.scandir(self._tasks) as entries:
                threads = [entry.name for entry in entries]
        except OSError:
            return {}
        for gone in self._files.keys() - set(threads):
            os.close(self._files.pop(gone))
        found = {}
        for thread in threads:
            try:
                if thread not in self._files:
                    path = self._tasks / thread / "schedstat"
                    self._files[thread] = os.open(path, os.O_RDONLY)
                found[thread] = int(os.pread(self._files[thread], 96, 0).split()[1])
            except (OSError, IndexError, ValueError):  # it ended, or nothing is counted
                continue
        return found
