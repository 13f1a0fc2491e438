"""What was added to a data set, taken out of it or changed in it is told, item by item."""

from __future__ import annotations

import pytest

from harness.core.records import Judgement, Qrels, Query
from harness.corpus.prepared import Inventory, Moved, changes

QUERIES = (Query("a", "one"), Query("b", "two", ("long",)), Query("c", "three"))
JUDGED = (Judgement("a", "d1", 1), Judgement("a", "d2", 0), Judgement("b", "d1", 2))


def inventory(
    queries: tuple[Query, ...] = QUERIES, judged: tuple[Judgement, ...] = JUDGED
) -> Inventory:
    return Inventory.of(queries, Qrels.of(judged))


def test_the_same_data_is_the_same_inventory() -> None:
    once, again = inventory(), inventory(QUERIES, JUDGED[::-1])
    assert once == again
    assert once.sha256 == again.sha256
    assert once.judged == 3
    assert not changes(once, again)
    assert changes(once, again).said == ()
    assert Inventory.model_validate_json(once.model_dump_json()) == once


def test_queries_that_came_went_and_changed() -> None:
    other = (Query("a", "one"), Query("b", "two"), Query("d", "four"))
    found = changes(inventory(), inventory(other))
    assert found.queries == Moved(added=("d",), removed=("c",), changed=("b",))
    assert found.said == (
        "1 query removed (c)", "1 query added (d)", "1 query changed (b)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (JUDGED[:2], ("1 query without judgements that had some (b)", "2 judgements, 3 before")),
        (
            (*JUDGED, Judgement("c", "d9", 0)),
            ("1 query with judgements that had none (c)", "4 judgements, 3 before"),
        ),
        (
            (*JUDGED[:2], Judgement("b", "d1", 1)),
            ("1 query with other judgements (b)", "3 judgements, 3 before"),
        ),
    ],
)
def test_judgements_that_came_went_and_changed(
    judged: tuple[Judgement, ...], said: tuple[str, ...]
) -> None:
    found = changes(inventory(), inventory(judged=judged))
    assert found
    assert found.said == said


def test_many_are_counted_and_the_first_few_named() -> None:
    many = tuple(Query(f"q{at}", "x") for at in range(9))
    assert changes(inventory(many), inventory(())).said[0] == "9 queries removed (q0, q1, q2, ...)"
