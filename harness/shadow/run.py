"""A live comparison over a file of queries, or over mirrored traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter_ns, sleep

import numpy as np

from harness.core.errors import DatasetError, EvidenceError, HarnessError
from harness.core.printable import many
from harness.core.progress import progress
from harness.core.records import Query, Scalar
from harness.core.server import CONNECTIONS, bound, server
from harness.corpus.prepared import Prepared
from harness.pipeline.layout import Layout
from harness.replay.drive import observe
from harness.shadow.comparison import NS_PER_S, Comparison, Counts, Settings, Shadowed, ShadowLog
from harness.shadow.http_searcher import check_address, http_candidate, http_searcher
from harness.shadow.limits import MILLION, Sampler
from harness.shadow.log import Between
from harness.shadow.pair import clean
from harness.shadow.receiver import Asking as ReceiverAsking
from harness.shadow.receiver import Receiver
from harness.shadow.record import query_key
from harness.shadow.recorder import Slices
from harness.shadow.server import Reading
from harness.shadow.stage import opened

RECEIVE_DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Receiving:
    """What is received, and the servers that are compared."""

    control: str
    candidate: str
    reading: Reading
    address: tuple[str, int]
    per_second: float
    workers: int
    repeat: float
    """Share of the requests that the control gets a second time."""
    client_header: str


@dataclass(frozen=True, slots=True)
class Received:
    """How many requests were compared and dropped."""

    counts: Counts
    dropped: Mapping[str, int]
    """Requests that nothing asked about, by reason."""


def shadow_receive(
    how: Receiving, folder: Path, settings: Settings, ready: Callable[[str], object]
) -> Received:
    """Receive mirrored requests until a signal comes; ``ready`` gets the address."""
    for address in (how.control, how.candidate):
        check_address(address)
    sampling = settings.sampling
    whole = sampling.model_copy(update={"rate": MILLION})
    log = ShadowLog(folder, settings.model_copy(update={"sampling": whole}))
    asking = ReceiverAsking(
        how.workers,
        how.per_second,
        Sampler(rate=sampling.rate, seed=sampling.seed),
        Sampler(rate=round(how.repeat * MILLION), seed=sampling.seed),
        how.client_header.lower(),
    )
    opens = partial(http_candidate, how.candidate, how.reading)
    with (
        bound(*how.address) as (listening, url),
        http_searcher(how.control, how.reading) as control,
        log.compared(opens, between=Between(how.control, how.candidate), process=True) as made,
    ):
        receiver = Receiver(how.reading, control, made, asking)

        ready(url)
        try:
            server(receiver, CONNECTIONS).run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            receiver.close()
            made.drain(RECEIVE_DRAIN_S)
    if made.counts.lost:
        raise HarnessError(
            f"{many(made.counts.lost, 'observation')} lost: {folder} cannot be written."
            " Free the space or the rights, and start again"
        )
    return Received(made.counts, receiver.dropped)


MINUTE_S = 60.0
NAP_S = 0.0002
"""Pause while the queue is full."""
RUN_DRAIN_S = 600.0
"""How long an attempt may take to be written down."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What was run, and what it cost."""

    counts: Counts
    elapsed_ns: int
    """From the first query to the last one written down."""
    control_ns: np.ndarray
    """Of each query, shape (queries,): with what the caller's path of the shadow adds."""
    written: bool
    """Whether all of it was written down before the run ended."""

    @property
    def per_second(self) -> float:
        """Queries a second, with the candidate's answers and the log."""
        return len(self.control_ns) * NS_PER_S / self.elapsed_ns


def titles(layout: Layout) -> tuple[Query, ...]:
    """Take the titles of a data set's documents for queries, each once, in the set's order."""
    found = dict.fromkeys(one.title for one in Prepared.open(layout.data).documents() if one.title)
    if not found:
        raise DatasetError(f"{layout.data}: no document has a title; name a file of queries")
    return tuple(Query(str(number), text) for number, text in enumerate(found, start=1))


def mixed(queries: Sequence[Query], seed: int) -> tuple[Query, ...]:
    """Shuffle a set's queries: one kind after the other is not like traffic.

    What is watched is taken to have one mean; a log of a set in its own order has none.
    """
    order = np.random.default_rng(seed).permutation(len(queries))
    return tuple(queries[at] for at in order.tolist())


@dataclass(frozen=True, slots=True)
class Asking:
    """What is run, and how fast."""

    queries: Sequence[Query]
    count: int
    """So many queries, from the first one again when all were run."""
    k: int
    per_second: float
    """When they come; 0 is as fast as both arms can."""

    @property
    def step_ns(self) -> float:
        """From one query to the next; 0 where none waits for its time."""
        return NS_PER_S / self.per_second if self.per_second else 0.0


def shadow_run(
    layout: Layout, pair: tuple[str, str], cache: Path, log: ShadowLog, asking: Asking
) -> Ran:
    """Ask the first arm of the pair, with the second one as its shadow.

    Where no rate is set, a query waits while the queue is full, and the candidate may have all
    of each minute, so that nothing is shed.
    """
    control, candidate = pair
    if control == candidate:
        raise EvidenceError(f"{control} would be compared with itself; name two different arms")
    if not asking.queries:
        raise DatasetError("the query set is empty; name a file that holds some")
    given = log if asking.per_second else replace(log, settings=unhurried(log.settings))
    limits = given.settings.bounds()
    room = limits.in_flight + limits.queue
    with opened(layout, candidate, cache):
        opens = partial(opened, layout, candidate, cache)
    with (
        opened(layout, control, cache) as searcher,
        given.compared(
            opens, between=Between(*pair), process=True, slices=_slices(asking.queries)
        ) as comparison,
        progress("asking", asking.count) as advance,
    ):
        shadowed = Shadowed(searcher, comparison)
        times = np.zeros(asking.count, dtype=np.int64)
        start = perf_counter_ns()
        for at, query in enumerate(islice(cycle(asking.queries), asking.count)):
            _wait(comparison, room, start + round(at * asking.step_ns), asking)
            times[at] = observe(shadowed, query, asking.k, limits.late_ns).elapsed_ns
            advance(1)
        written = comparison.drain(RUN_DRAIN_S)
        return Ran(comparison.counts, perf_counter_ns() - start, times, written)


def _slices(queries: Sequence[Query]) -> Slices:
    found = {_key(query.text, query.params): query.slices for query in queries}
    return lambda text, params: found.get(_key(text, params), ())


def _key(text: str, params: Mapping[str, Scalar]) -> str:
    return query_key(clean(text), params)


def unhurried(settings: Settings) -> Settings:
    """Allow the candidate all of each minute, where no one is served meanwhile."""
    limits = settings.limits
    whole = limits.model_copy(update={"budget_s": 2 * MINUTE_S * limits.in_flight})
    return settings.model_copy(update={"limits": whole})


def _wait(comparison: Comparison, room: int, due_ns: int, asking: Asking) -> None:
    """Wait until the question is due, or until the candidate has room for it."""
    if asking.per_second:
        sleep(max(due_ns - perf_counter_ns(), 0) / NS_PER_S)
        return
    while comparison.waiting >= room and not comparison.off:
        sleep(NAP_S)
