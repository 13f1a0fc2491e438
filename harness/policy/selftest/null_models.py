"""Null models: engines that must not pass any gate on quality."""

from __future__ import annotations

import random
from collections import Counter

from harness.core.engine import Hit
from harness.core.run import Row, Run


def shuffled(run: Run, *, seed: int) -> Run:
    """Give each query the hits of ``run`` for another one."""
    rows = list(run.rows())
    order = random.Random(seed).sample(range(len(rows)), len(rows))
    given = dict(zip(order, (*order[1:], *order[:1]), strict=True))
    return Run.of(
        "shuffled",
        (
            rows[given[at]]._replace(query_id=row.query_id, duplicates=0)
            for at, row in enumerate(rows)
        ),
    )


def popular(run: Run) -> Run:
    """Give every query the most frequent hits of ``run``; equal counts go by id."""
    shown = Counter(run.vocabulary[code] for code in run.docs)
    longest = int(run.lengths.max(initial=0))
    best = sorted(shown, key=lambda doc_id: (-shown[doc_id], doc_id))[:longest]
    hits = tuple(Hit(doc_id, 1 / rank, 1 / rank) for rank, doc_id in enumerate(best, start=1))
    return Run.of(
        "popular", (Row(row.query_id, row.status, hits, row.served_by) for row in run.rows())
    )
