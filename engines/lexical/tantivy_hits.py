"""The best hits of a Tantivy query in an order that does not depend on how the index was written.

Tantivy orders ties by where documents lie. Where they lie in the order of the integer fast field
that names them, its first hits are the ones wanted. Elsewhere all that tie with the last of them
are fetched before the order is made: best key first, equal keys by that field.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import neg
from typing import Any, NamedTuple

import tantivy

SLACK = 2
"""First guess at how many times ``k`` must be fetched until the key drops below the k-th."""
GROWTH = 4


class Keyed(NamedTuple):
    """A document's number, and what it is ordered by: its score, or the value of a field."""

    document: int
    key: float


class Columns(NamedTuple):
    """Hits in their order, shape (hits,) both; making an object of each costs more than finding."""

    documents: Sequence[int]
    keys: Sequence[float]


NONE = Columns((), ())


def best(
    searcher: tantivy.Searcher, query: tantivy.Query, k: int, *, ids: str, by: str | None = None
) -> list[Keyed]:
    """Give what ``columns`` does for an index of unknown order, one value for each hit."""
    return list(map(Keyed, *columns(searcher, query, k, ids=ids, by=by, in_order=False)))


def columns(
    searcher: tantivy.Searcher,
    query: tantivy.Query,
    k: int,
    *,
    ids: str,
    by: str | None,
    in_order: bool,
) -> Columns:
    """Give the ``k`` best hits, highest key first, equal keys by the integer field ``ids``.

    The key is the score, or the value of the fast field ``by`` where one is named. ``in_order``
    says that each document has a number and lies before all of higher ones. A ``k`` below 1 gives
    nothing; Tantivy itself panics there.

    Raises:
        ValueError: Tantivy cannot run the query.
    """
    if k < 1:
        return NONE
    everything = max(1, searcher.num_docs)
    limit = min(k if in_order else SLACK * k, everything)
    while True:
        hits = searcher.search(query, limit, count=False, order_by_field=by).hits
        if in_order or len(hits) < limit or limit == everything:
            break
        if _key(hits[-1][0]) < _key(hits[k - 1][0]):
            break
        limit = min(GROWTH * limit, everything)
    if not hits:
        return NONE
    keys, addresses = zip(*hits, strict=True)
    numbers: list[Any] = searcher.fast_field_values(ids, list(addresses))
    if by:
        keys = tuple(map(_key, keys))
    if in_order:
        return Columns(numbers, keys)
    named = ((key, number) for key, number in zip(keys, numbers, strict=True) if number is not None)
    ranked = sorted((-key, number) for key, number in named)[:k]
    return Columns([number for _, number in ranked], [neg(key) for key, _ in ranked])


def _key(key: object) -> float:
    """Read what Tantivy ordered by; it is a number for every field that is named here."""
    if isinstance(key, int | float):
        return key
    raise ValueError(f"Tantivy ordered by {key!r}, which is no number")
