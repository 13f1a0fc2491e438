"""The order of hits: best score first, equal scores by document id."""

from __future__ import annotations

from collections.abc import Iterable

from harness.core.engine import Hit


def by_best(scored: Iterable[tuple[str, float]], k: int) -> tuple[Hit, ...]:
    """Order (document id, raw score) pairs and keep ``k``.

    ``score`` is the raw score as a share of the query's best. So a document that matches
    nothing would be 0 and the best hit is 1 (decision 7 of the agent mail stack).
    """
    ordered = sorted(scored, key=lambda hit: (-hit[1], hit[0]))[:k]
    best = ordered[0][1] if ordered else 0.0
    return tuple(Hit(doc_id, raw / best if best > 0 else 0.0, raw) for doc_id, raw in ordered)
