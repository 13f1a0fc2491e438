"""Put a query set through one open arm, in parts that outlive a killed process."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from harness.core.digest import of_json, of_queries
from harness.core.engine import Searcher
from harness.core.errors import BadFile, EvidenceError
from harness.core.records import Query
from harness.core.run import Conditions, Row, Run, Status
from harness.corpus.runs import read_run, write_run
from harness.replay.ask import Observation, observe

MUCH_TOO_LATE = 1.5
"""Of the time limit: beyond it, no pause between two clocks explains an answer."""
PART = 500
"""Queries a part file holds."""


def drive(
    arm: str,
    searcher: Searcher,
    queries: Sequence[Query],
    *,
    k: int,
    time_limit_s: float,
    seed: int,
    parts: Path,
    code_sha256: str,
    advance: Callable[[int], object],
) -> Run:
    """Ask every query once, in seeded order, and give the run in the order of ``queries``.

    The run states the conditions under which it was made.

    Finished parts lie below ``parts``, named by all that they depend on (``code_sha256`` stands
    for the engine's source), and are reused. ``advance`` is told how many queries are
    done.
    """
    order = list(queries)
    random.Random(seed).shuffle(order)
    rows: dict[str, Row] = {}
    retries = limited = 0
    for at in range(0, len(order), PART):
        some = order[at : at + PART]
        depends_on = [
            code_sha256,
            arm,
            searcher.manifest.fingerprint,
            of_queries(some),
            k,
            time_limit_s,
        ]
        path = parts / f"{of_json(depends_on)[:32]}.parquet"
        part = _finished(path)
        if part is None:
            seen = [_seen(arm, searcher, query, k, time_limit_s) for query in some]
            part = Run.of(arm, [one.row for one in seen])
            part = replace(
                part,
                retries=sum(one.retries for one in seen),
                rate_limited=sum(one.rate_limited for one in seen),
            )
            write_run(part, path)
        retries += part.retries
        limited += part.rate_limited
        rows.update((row.query_id, row) for row in part.rows())
        advance(len(some))
    run = Run.of(arm, [rows[query.query_id] for query in queries])
    asked = Conditions(k, time_limit_s)
    return replace(run, conditions=asked, retries=retries, rate_limited=limited)


def _seen(arm: str, searcher: Searcher, query: Query, k: int, time_limit_s: float) -> Observation:
    """Ask once, and see by a clock of our own that the time limit fires.

    Raises:
        EvidenceError: an answer came long after its limit, and counts as one.
    """
    asked_s = perf_counter()
    seen = observe(searcher, query, k, int(time_limit_s * 1e9))
    took_s = perf_counter() - asked_s
    if seen.row.status is Status.ANSWERED and took_s > MUCH_TOO_LATE * time_limit_s:
        raise EvidenceError(
            f"{arm}: query {query.query_id} took {took_s:.3f} s, its limit is {time_limit_s:g} s,"
            " and it counts as answered: the time limit does not fire. Correct harness.replay"
        )
    return seen


def _finished(path: Path) -> Run | None:
    """Read a part of an earlier run; one that cannot be read is as good as none."""
    try:
        return read_run(path)
    except BadFile:
        return None
