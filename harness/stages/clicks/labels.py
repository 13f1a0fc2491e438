"""Click logs to labels, by the position-based model; they are a machine's, and biased.

The model takes out how likely a rank is looked at. It leaves in what else moves clicks: titles that
promise too much, trust in the first rank, and what is seen of a document before the click. So the
labels are for ``harness assisted``, as those of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from harness.core.errors import EvidenceError
from harness.core.qrels import Qrels
from harness.core.records import Judgement, Query
from harness.shadow.clicks.log import Clicks
from harness.stats.positions import position_model


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of clicked and unclicked documents."""

    qrels: Qrels
    """1 where a document is clicked at least so often once it is looked at, else 0."""
    looked_at: tuple[float, ...]
    """Probability that a rank is looked at, from the first."""
    rare: int
    """Pairs that were shown too rarely for a label."""
    unknown: int
    """Lists whose query is not among the queries."""


def labels(found: Clicks, queries: Iterable[Query], *, attractive: float, min_shown: int) -> Labels:
    """Label each pair that was shown ``min_shown`` times or more.

    A label is 1 from the probability ``attractive`` of a click once the document is looked at.
    Queries are found by their text, without regard to case and spaces.

    Raises:
        EvidenceError: nothing can be labelled, or as ``position_model``.
    """
    ids = {_plain(query.text): query.query_id for query in queries}
    counts: dict[tuple[str, str], dict[int, list[int]]] = {}
    unknown = 0
    for one in found.shown:
        query_id = ids.get(_plain(one.query))
        if query_id is None:
            unknown += 1
            continue
        on = found.clicked.get(one.id, frozenset())
        for rank, document in enumerate(one.documents):
            cell = counts.setdefault((query_id, document), {}).setdefault(rank, [0, 0])
            cell[0] += 1
            cell[1] += document in on
    pairs = [*counts]
    rows = [
        (at, rank, shown, clicked)
        for at, pair in enumerate(pairs)
        for rank, (shown, clicked) in counts[pair].items()
    ]
    if not rows:
        raise EvidenceError("no list of these queries is in the log; give the queries it shows")
    pair, rank, views, clicks = np.array(rows, dtype=np.int64).T
    model = position_model(pair, rank, views.astype(np.float64), clicks.astype(np.float64))
    seen = np.bincount(pair, weights=views)
    kept = [
        Judgement(*pairs[at], int(model.attractive[at] >= attractive))
        for at in np.flatnonzero(seen >= min_shown)
    ]
    if not kept:
        raise EvidenceError(f"no document was shown {min_shown} times; lower --min-shown, or wait")
    looked_at = tuple(float(one) for one in model.looked_at)
    return Labels(Qrels.of(kept), looked_at, len(pairs) - len(kept), unknown)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
