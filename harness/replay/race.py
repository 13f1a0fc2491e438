"""Race: several open arms asked the same queries, interleaved, one clock each (method, section 5).

Closed loop: the next question comes when the last was answered, so a race says how long an
answer takes, not how a service bears load.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Searcher
from harness.core.errors import EvidenceError, MismatchedQueries
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.replay.ask import observe

Entrant = tuple[str, bool]
"""An arm, and whether this is its A/A twin: the same arm opened a second time."""


@dataclass(frozen=True, slots=True, eq=False)
class Lap:
    """Times of one race, and what was wrong with any answer."""

    query_ids: tuple[str, ...]
    elapsed_ns: Mapping[Entrant, NDArray[np.int64]]
    """Shape (queries, repetitions)."""
    strays: Mapping[Entrant, tuple[str, ...]]
    """Queries whose answer was not the one in the arm's run."""


def race(
    entrants: Mapping[Entrant, Searcher],
    runs: Mapping[str, Run],
    queries: Sequence[Query],
    *,
    k: int,
    repetitions: int,
    warmup: int,
    seed: int,
    time_limit_s: float,
    advance: Callable[[int], object],
) -> Lap:
    """Ask every query of every entrant ``warmup + repetitions`` times; warm-up is not kept.

    Rounds go over the queries in seeded order, and within a query the entrants take turns in
    seeded order, so that a slow moment of the machine falls on all of them. Each answer is held
    against the first ``k`` hits of the arm's run.

    Raises:
        EvidenceError: the time of an answer is longer than the call that gave it, so it covers
            that of another entrant.
        MismatchedQueries: an arm's run lacks one of the queries.
    """
    rng = random.Random(seed)
    names = sorted(entrants)
    at = {query.query_id: row for row, query in enumerate(queries)}
    times = {name: np.zeros((len(queries), repetitions), dtype=np.int64) for name in names}
    strays: dict[Entrant, set[str]] = {name: set() for name in names}
    limit_ns = int(time_limit_s * 1e9)
    expected = {
        arm: {row.query_id: shown(row, k) for row in run.rows() if row.query_id in at}
        for arm, run in runs.items()
    }
    for rows in expected.values():
        if missing := at.keys() - rows.keys():
            raise MismatchedQueries(missing, ())
    with _quiet_collector():
        for lap in range(-warmup, repetitions):
            for query in rng.sample(list(queries), len(queries)):
                for name in rng.sample(names, len(names)):
                    asked_ns = perf_counter_ns()
                    seen = observe(entrants[name], query, k, limit_ns)
                    _check_clock(name, query, seen.elapsed_ns, perf_counter_ns() - asked_ns)
                    if lap >= 0:
                        times[name][at[query.query_id], lap] = seen.elapsed_ns
                    if shown(seen.row, k) != expected[name[0]][query.query_id]:
                        strays[name].add(query.query_id)
            advance(len(queries))
    found = {name: tuple(sorted(ids)) for name, ids in strays.items()}
    return Lap(tuple(query.query_id for query in queries), times, found)


def _check_clock(name: Entrant, query: Query, elapsed_ns: int, call_ns: int) -> None:
    if elapsed_ns > call_ns:
        raise EvidenceError(
            f"{name[0]}: query {query.query_id} is said to have taken {elapsed_ns} ns in a call of"
            f" {call_ns} ns: the time of one arm covers another's. Time each arm by itself"
        )


def shown(row: Row, k: int) -> tuple[Status, tuple[str, ...], str]:
    """Reduce an answer to what must be the same: its end, its documents in order, who answered."""
    documents = tuple(dict.fromkeys(hit.doc_id for hit in row.hits))
    return row.status, documents[:k], row.served_by


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from running inside somebody's time."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
