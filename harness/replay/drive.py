"""Put a query set through one open arm, in parts that outlive a killed process."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.core.digest import of_json, of_queries
from harness.core.engine import Searcher
from harness.core.errors import BadFile
from harness.core.records import Query
from harness.core.run import Row, Run
from harness.corpus.runs import read_run, write_run
from harness.replay.ask import observe

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

    Finished parts lie below ``parts``, named by all that they depend on (``code_sha256`` stands
    for the engine's source), and are not asked again. ``advance`` is told how many queries are
    done.
    """
    order = list(queries)
    random.Random(seed).shuffle(order)
    rows: dict[str, Row] = {}
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
            limit_ns = int(time_limit_s * 1e9)
            part = Run.of(arm, [observe(searcher, query, k, limit_ns).row for query in some])
            write_run(part, path)
        rows.update((row.query_id, row) for row in part.rows())
        advance(len(some))
    return Run.of(arm, [rows[query.query_id] for query in queries])


def _finished(path: Path) -> Run | None:
    """Read a part of an earlier run; one that cannot be read is as good as none."""
    try:
        return read_run(path)
    except BadFile:
        return None
