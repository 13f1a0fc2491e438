"""Race: several open arms asked the same texts, interleaved, one clock each."""

import os
import random
import re
import resource
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from time import process_time_ns, thread_time_ns
from typing import NamedTuple

from harness.core.digest import of_json
from harness.core.engine import Searcher
from harness.core.errors import HarnessError
from harness.core.records import Document, Query
from harness.core.run import Row, Status
from harness.replay.drive import observe
from harness.replay.machine import Reference, Surroundings, between, look, quiet

HELD_BACK = 5
"""At most one text in so many is held back to warm up on, where there are few."""
READ = 4_000
TRIES = 24
"""Documents that are drawn to find words that make no bag of the set."""
LONGER = 2
"""Letters that a word may be longer or shorter than the one that it replaces: an encoder counts."""
WORD = re.compile(r"\w+(?![\w:])")
Bag = frozenset[str]
Key = tuple[Bag, str]


class RaceTexts(NamedTuple):
    """The texts of every process of a race."""

    warm: tuple[Query, ...]
    """Asked before, and not timed; none of them is among the others."""
    timed: tuple[Query, ...]
    repeated: tuple[Query, ...]
    """The first of ``timed``, which come a second time."""
    unseen: tuple[Query, ...] = ()
    """Variants of ``timed`` by the same ids: other words, in no query set."""


def draw(
    queries: Sequence[Query],
    clusters: Mapping[str, str],
    *,
    timed: int,
    warm: int,
    repeated: int,
    seed: int,
) -> RaceTexts:
    """Draw texts from a query set, seeded, and of each cluster one (docs/decisions/0045).

    Two queries that differ in case or space are one text. Where there are fewer texts than asked
    for, a fifth at most is held back for the warm-up, which goes through them again and again.
    """
    distinct = {_text(query): query for query in reversed(queries)}
    drawn = random.Random(seed).sample(
        sorted(distinct.values(), key=lambda query: query.query_id), len(distinct)
    )
    first = {_cluster(query, clusters): query for query in reversed(drawn)}
    drawn = [query for query in drawn if first[_cluster(query, clusters)] is query]
    if len(drawn) <= 1:
        raise HarnessError(
            f"the query set has {len(drawn)} different texts, near-duplicates counted once, and a"
            " race needs one to time and another to warm up on; add queries"
        )
    few = len(drawn) < timed + warm
    kept = min(warm, max(1, len(drawn) // HELD_BACK)) if few else len(drawn) - timed
    others, chosen = drawn[:kept], drawn[kept:][:timed]
    again = [others[at % len(others)] for at in range(warm)]
    return RaceTexts(tuple(again), tuple(chosen), tuple(chosen[:repeated]))


class Words:
    """Words of a corpus, by how many of its documents hold them."""

    def __init__(self, documents: Iterable[Document], count: int) -> None:
        """Read every so-manieth of ``count`` documents, so that at most ``READ`` are counted."""
        read = islice(documents, 0, None, max(1, -(-count // READ)))
        self._held = [_bag(f"{document.title} {document.text}") for document in read]
        self._documents = Counter(chain.from_iterable(self._held))
        self._alike: dict[int, list[str]] = {}
        for word in sorted(self._documents):
            self._alike.setdefault(self._rank(word), []).append(word)

    def other(self, query: Query, known: Container[Key], rng: random.Random) -> Query | None:
        """Replace the words of a text by others as frequent, of one document if it can be."""
        if not self._alike:
            return None
        own = _bag(query.text)
        best = replace(query, text=f"{query.text} {rng.choice(self._alike[max(self._alike)])}")
        for _ in range(TRIES):
            document = rng.choice(self._held)
            like = partial(self._like, beside=sorted(document - own), own=own, rng=rng)
            variant = replace(query, text=WORD.sub(like, query.text))
            if _key(variant) not in known:
                best = variant
                if all(word in document for word in _bag(best.text) if self._rank(word)):
                    break
        return best

    def _like(
        self, found: re.Match[str], beside: Sequence[str], own: Bag, rng: random.Random
    ) -> str:
        word = found[0]
        rank = self._rank(word.casefold())
        if not rank:
            return "".join(rng.sample(word, len(word)))
        near = [one for one in beside if self._rank(one) == rank]
        near = near or [one for one in self._alike[rank] if one not in own]
        long = [one for one in near if abs(len(one) - len(word)) <= LONGER]
        return rng.choice(long or near) if near else word

    def _rank(self, word: str) -> int:
        """Documents that hold a word, to a factor of two; 0 for a word that none holds."""
        return self._documents[word].bit_length()


def varied(texts: RaceTexts, queries: Sequence[Query], words: Words, order: str) -> RaceTexts:
    """Add a variant of each of ``timed``, its words drawn by ``order``."""
    known, rng = {_key(query) for query in queries}, random.Random(order)
    drawn = [words.other(query, known, rng) for query in texts.timed]
    return texts._replace(unseen=tuple(variant for variant in drawn if variant))


def _bag(text: str) -> Bag:
    return frozenset(found.casefold() for found in WORD.findall(text))


def _key(query: Query) -> Key:
    return _bag(query.text), of_json(dict(query.params))


def _cluster(query: Query, clusters: Mapping[str, str]) -> tuple[bool, str]:
    own = clusters.get(query.query_id)
    return (False, query.query_id) if own is None else (True, own)


def _text(query: Query) -> str:
    return of_json([" ".join(query.text.casefold().split()), dict(query.params)])


TASKS = Path("/proc/self/task")
RUN_QUEUE, IDLE = "run-queue wait", "wall time without processor time"
Expected = tuple[Status, tuple[str, ...], str]
"""How an answer ends, its documents in order, and who gives it."""
UNSEEN = 2
WHOLE, WHO = slice(None), slice(None, None, 2)
"""What of ``Expected`` must be the same."""


class Call(NamedTuple):
    """One timed answer."""

    arm: str
    query_id: str
    repetition: int
    """0 for the first time that the process saw the text, 1 for the second, 2 for a variant."""
    turn: int
    elapsed_ns: int
    taken: "CallCost"


@dataclass(frozen=True, slots=True)
class Lap:
    """What one process measured."""

    calls: tuple[Call, ...]
    strays: Mapping[str, tuple[str, ...]]
    """Queries whose answer was not the one in the arm's run, by arm."""
    reference_ns: tuple[int, ...]
    surroundings: Surroundings
    counts: str
    beside_ns: Mapping[str, int]
    """Processor time of other threads after the answers of an arm, before the next call; by arm."""


def race(
    searchers: Mapping[str, Searcher],
    expected: Mapping[str, Mapping[str, Expected]],
    texts: RaceTexts,
    *,
    k: int,
    seed: int,
    process: int,
    time_limit_s: float,
    advance: Callable[[int], object],
) -> Lap:
    """Warm every arm up, then ask all texts once, a few a second time, and a variant of each.

    All arms have a text before the next one comes, in a seeded order that moves on by one from
    process to process. Each answer is compared with ``expected``; that to a variant must end alike
    and be given by the same engine.
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
        before = meter.read()
        beside.until(before)
        seen = observe(searchers[name], query, k, limit_ns)
        after = meter.read()
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


def shown(row: Row, k: int) -> Expected:
    """Reduce an answer to what must be the same: its end, its documents in order, who answered."""
    documents = tuple(dict.fromkeys(hit.doc_id for hit in row.hits))
    return row.status, documents[:k], row.served_by


class ProcessCounters(NamedTuple):
    """Counters of this process so far."""

    waits_ns: Mapping[str, int]
    cpu_ns: int
    preempted: int
    others_ns: int = 0
    """Of ``cpu_ns``, that of all threads but the one that asks."""


class Beside:
    """Sums up the processor time of other threads after answers, by arm."""

    def __init__(self, names: Sequence[str]) -> None:
        self.ns = dict.fromkeys(names, 0)
        self.ended: tuple[str, ProcessCounters] | None = None

    def until(self, now: ProcessCounters) -> None:
        """Count what was used since the last answer."""
        if self.ended is not None:
            name, then = self.ended
            self.ns[name] += now.others_ns - then.others_ns
            self.ended = None


class CallCost(NamedTuple):
    """What one call cost, beside its time."""

    waited_ns: int
    """Ready and not running, all threads together; more than the call's time where several were."""
    cpu_ns: int
    preempted: int


class Meter:
    """Reads the counters of this process; keeps the files of its threads open."""

    def __init__(self, tasks: Path = TASKS) -> None:
        self._tasks = tasks
        self._files: dict[str, int] = {}
        self.counts = RUN_QUEUE if self._waits() else IDLE

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def read(self) -> ProcessCounters:
        """Read all counters now."""
        waits = self._waits() if self.counts == RUN_QUEUE else {}
        preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        cpu_ns = process_time_ns()
        return ProcessCounters(waits, cpu_ns, preempted, cpu_ns - thread_time_ns())

    def taken(self, before: ProcessCounters, after: ProcessCounters, elapsed_ns: int) -> CallCost:
        """Describe what was taken between two readings around a call of ``elapsed_ns``."""
        cpu_ns = after.cpu_ns - before.cpu_ns
        preempted = after.preempted - before.preempted
        if self.counts == IDLE:
            return CallCost(max(0, elapsed_ns - cpu_ns), cpu_ns, preempted)
        waited = sum(ns - before.waits_ns.get(of, 0) for of, ns in after.waits_ns.items())
        return CallCost(waited, cpu_ns, preempted)

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
