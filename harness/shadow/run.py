"""A live comparison over a file of queries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter_ns, sleep
from typing import NamedTuple

import numpy as np

from harness.core.errors import DatasetError, EvidenceError
from harness.core.progress import progress
from harness.core.records import Query
from harness.corpus.prepared import Prepared
from harness.pipeline.layout import Layout
from harness.replay.drive import observe
from harness.shadow.comparison import Counts, Shadowed, ShadowLog
from harness.shadow.limits import NS_PER_MS, NS_PER_S, Settings
from harness.shadow.log import Between
from harness.shadow.pair import clean
from harness.shadow.record import query_key
from harness.shadow.recorder import Slices
from harness.shadow.stage import opened

MINUTE_S = 60.0
NAP_S = 0.0002
"""Pause while the queue is full."""
RUN_DRAIN_S = 600.0
"""How long an attempt may take to be written down."""


class Ran(NamedTuple):
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


def shadow_run(
    layout: Layout,
    pair: tuple[str, str],
    cache: Path,
    log: ShadowLog,
    queries: Sequence[Query],
    *,
    count: int,
    k: int,
    per_second: float = 0.0,
) -> Ran:
    """Ask the first arm ``count`` queries, from the first one again after the last.

    The second arm is its shadow. Without a rate, a query waits while the queue is full, and the
    candidate may have all of each minute, so that nothing is shed.
    """
    control, candidate = pair
    if control == candidate:
        raise EvidenceError(f"{control} would be compared with itself; name two different arms")
    if not queries:
        raise DatasetError("the query set is empty; name a file that holds some")
    settings = log.settings if per_second else unhurried(log.settings)
    late_ns = round(settings.limits.late_ms * NS_PER_MS)
    with opened(layout, candidate, cache):
        opens = partial(opened, layout, candidate, cache)
    with (
        opened(layout, control, cache) as searcher,
        ShadowLog(log.folder, settings).compared(
            opens, between=Between(*pair), slices=_slices(queries)
        ) as comparison,
        progress("asking", count) as advance,
    ):
        shadowed = Shadowed(searcher, comparison)
        times = np.zeros(count, dtype=np.int64)
        start = perf_counter_ns()
        for at, query in enumerate(islice(cycle(queries), count)):
            if per_second:
                due_ns = start + round(at * NS_PER_S / per_second)
                sleep(max(due_ns - perf_counter_ns(), 0) / NS_PER_S)
            else:
                while comparison.waiting >= settings.limits.room and not comparison.off:
                    sleep(NAP_S)
            times[at] = observe(shadowed, query, k, late_ns).elapsed_ns
            advance(1)
        written = comparison.drain(RUN_DRAIN_S)
        return Ran(comparison.counts, perf_counter_ns() - start, times, written)


def _slices(queries: Sequence[Query]) -> Slices:
    found = {query_key(clean(one.text), one.params): one.slices for one in queries}
    return lambda text, params: found.get(query_key(clean(text), params), ())


def unhurried(settings: Settings) -> Settings:
    """Allow the candidate all of each minute, where no one is served meanwhile."""
    limits = settings.limits
    whole = limits.model_copy(update={"budget_s": 2 * MINUTE_S * limits.in_flight})
    return settings.model_copy(update={"limits": whole})
