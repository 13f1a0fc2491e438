"""Put a query set through one open arm, in parts that outlive a killed process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from harness.core.batches.batch import Batch, Executor
from harness.core.batches.inline import Inline
from harness.core.batches.mapping import current, map_batches, using
from harness.core.digest import of_json, of_queries
from harness.core.engine import Searcher
from harness.core.errors import BadFile, EvidenceError
from harness.core.records import Query
from harness.core.run import Conditions, Row, Run, Status
from harness.corpus.runs import read_run, write_run
from harness.replay.ask import TimedOutcome, observe

MUCH_TOO_LATE = 1.5
"""Of the time limit: beyond it, no pause between two clocks explains an answer."""
PART = 500
"""Queries a part file holds."""

Opener = Callable[[], AbstractContextManager[Searcher]]
"""Gives the open arm; for another process it is a value that can be pickled."""


@dataclass(frozen=True, slots=True)
class _Open:
    """Gives an arm that this process has open."""

    searcher: Searcher

    def __call__(self) -> AbstractContextManager[Searcher]:
        return nullcontext(self.searcher)


@dataclass(frozen=True, slots=True)
class Asking:
    """Runs some queries on an arm, and writes what came out as a run."""

    opener: Opener
    arm: str
    k: int
    time_limit_s: float

    def __call__(self, queries: Sequence[Query], beside: Path) -> Iterator[int]:
        with self.opener() as searcher:
            seen = [_seen(self.arm, searcher, one, self.k, self.time_limit_s) for one in queries]
        run = replace(
            Run.of(self.arm, [one.row for one in seen]),
            retries=sum(one.retries for one in seen),
            rate_limited=sum(one.rate_limited for one in seen),
        )
        write_run(run, beside)
        yield len(queries)


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
    opener: Opener | None = None,
) -> Run:
    """Ask every query once, in seeded order, and give the run in the order of ``queries``.

    The run states the conditions under which it was made.

    Finished parts lie below ``parts``, named by all that they depend on (``code_sha256`` stands
    for the engine's source), and are reused. ``advance`` is told how many queries are
    done. Other processes take part where ``opener`` lets them open the arm.
    """
    order = list(queries)
    random.Random(seed).shuffle(order)
    own = [code_sha256, arm, searcher.manifest.fingerprint]
    batches = []
    for at in range(0, len(order), PART):
        some = order[at : at + PART]
        name = of_json([*own, of_queries(some), k, time_limit_s])[:32]
        batches.append(Batch(some, parts / f"{name}.parquet", len(some)))
    executor: Executor = Inline()
    if opener is not None and current().folder is not None:
        executor = current()
    else:
        opener = _Open(searcher)
    asking = Asking(opener, arm, k, time_limit_s)
    with using(executor):
        map_batches(asking, batches, advance=advance, whole=_is_run)
    rows: dict[str, Row] = {}
    retries = limited = 0
    for batch in batches:
        part = read_run(batch.part)
        retries += part.retries
        limited += part.rate_limited
        rows.update((row.query_id, row) for row in part.rows())
    run = Run.of(arm, [rows[query.query_id] for query in queries])
    asked = Conditions(k, time_limit_s)
    return replace(run, conditions=asked, retries=retries, rate_limited=limited)


def _seen(arm: str, searcher: Searcher, query: Query, k: int, time_limit_s: float) -> TimedOutcome:
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


def _is_run(path: Path) -> bool:
    """Tell whether a part of an earlier run can be read; one that cannot is as good as none."""
    try:
        read_run(path)
    except BadFile:
        return False
    return True
