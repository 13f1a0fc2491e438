"""The best hits of a Tantivy query in an order that does not depend on how the index was written.

Segments break ties as they like, so all that tie with the last wanted hit are fetched before the
order is made: best key first, equal keys by the integer fast field that names a document.
"""

from __future__ import annotations

from typing import NamedTuple

import tantivy

SLACK = 2
"""First guess at how many times ``k`` must be fetched until the key drops below the k-th."""
GROWTH = 4


class Keyed(NamedTuple):
    """A document's number, and what it is ordered by: its score, or the value of a field."""

    document: int
    key: float


def best(
    searcher: tantivy.Searcher, query: tantivy.Query, k: int, *, ids: str, by: str | None = None
) -> list[Keyed]:
    """Give the ``k`` best hits, highest key first, equal keys by the integer field ``ids``.

    The key is the score, or the value of the fast field ``by`` where one is named. A ``k`` below
    1 gives nothing; Tantivy itself panics there.

    Raises:
        ValueError: Tantivy cannot run the query.
    """
    if k < 1:
        return []
    everything = max(1, searcher.num_docs)
    limit = min(SLACK * k, everything)
    while True:
        hits = searcher.search(query, limit, count=False, order_by_field=by).hits
        if len(hits) < limit or limit == everything or _key(hits[-1][0]) < _key(hits[k - 1][0]):
            break
        limit = min(GROWTH * limit, everything)
    numbers = searcher.fast_field_values(ids, [address for _, address in hits])
    keyed = (
        Keyed(int(number), _key(key))
        for number, (key, _) in zip(numbers, hits, strict=True)
        if number is not None
    )
    return sorted(keyed, key=lambda hit: (-hit.key, hit.document))[:k]


def _key(key: object) -> float:
    """Read what Tantivy ordered by; it is a number for every field that is named here."""
    if isinstance(key, int | float):
        return key
    raise ValueError(f"Tantivy ordered by {key!r}, which is no number")
