"""Which texts a race times, and on which it warms up: no process has seen what it times.

An engine that keeps answers, or anything that it computed from a text, is quick on a text that it
has seen. Somebody who types a text for the first time does not gain by that, so first answers are
what is judged, and texts that come again are timed apart.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.core.digest import of_json
from harness.core.errors import HarnessError
from harness.core.records import Query

HELD_BACK = 5
"""At most one text in so many is held back to warm up on, where there are few."""


class Texts(NamedTuple):
    """The texts of every process of a race."""

    warm: tuple[Query, ...]
    """Asked before, and not timed; none of them is among the others."""
    timed: tuple[Query, ...]
    repeated: tuple[Query, ...]
    """The first of ``timed``, which come a second time."""


def draw(
    queries: Sequence[Query],
    clusters: Mapping[str, str],
    *,
    timed: int,
    warm: int,
    repeated: int,
    seed: int,
) -> Texts:
    """Draw texts from a query set, seeded, and of each cluster one.

    Two queries that differ in case or space are one text. Queries of one cluster take much the same
    time, so a second one would count as evidence that it is not (docs/decisions/0045).
    ``clusters`` names the cluster of a query by its id; a query that is not in there stands alone.

    Where there are fewer texts than asked for, a fifth at most is held back for the warm-up, which
    then goes through them again and again.

    Raises:
        HarnessError: there are fewer than two different texts.
    """
    distinct = {_text(query): query for query in reversed(queries)}
    drawn = random.Random(seed).sample(
        sorted(distinct.values(), key=lambda query: query.query_id), len(distinct)
    )
    first = {_cluster(query, clusters): query for query in reversed(drawn)}
    drawn = [query for query in drawn if first[_cluster(query, clusters)] is query]
    if len(drawn) <= 1:
        raise HarnessError(
            f"the query set has {len(drawn)} different texts, near-duplicates counted once, and a"
            " race needs one to time and another to warm up on; add queries"
        )
    few = len(drawn) < timed + warm
    kept = min(warm, max(1, len(drawn) // HELD_BACK)) if few else len(drawn) - timed
    others, chosen = drawn[:kept], drawn[kept:][:timed]
    again = [others[at % len(others)] for at in range(warm)]
    return Texts(tuple(again), tuple(chosen), tuple(chosen[:repeated]))


def _cluster(query: Query, clusters: Mapping[str, str]) -> tuple[bool, str]:
    own = clusters.get(query.query_id)
    return (False, query.query_id) if own is None else (True, own)


def _text(query: Query) -> str:
    return of_json([" ".join(query.text.casefold().split()), dict(query.params)])
