"""Documents as messages, and params as filters."""

from __future__ import annotations

import pytest

from engines.contract import InvalidQuery
from engines.stacks.agent_mail.arm import KNOWN, message, params_of, products, question
from engines.stacks.agent_mail.contract import (
    Direction,
    Importance,
    RankingMode,
    SearchMode,
    SearchQuery,
    TimeRange,
)
from harness.core.records import Document, Scalar


def test_metadata_becomes_the_fields_of_a_message() -> None:
    about: dict[str, Scalar] = {
        "project_id": 7,
        "sender": "Ann",
        "recipients": "Bob,Cid",
        "importance": "urgent",
    }
    found = message(3, Document("d", "subject", "body", about))
    assert (found.message_id, found.project_id, found.recipients) == (3, 7, ("Bob", "Cid"))
    assert (found.importance, found.subject, found.body) == (Importance.URGENT, "subject", "body")


def test_a_document_without_metadata_is_a_plain_message() -> None:
    found = message(3, Document("d", "", "body"))
    assert (found.project_id, found.sender_name, found.recipients) == (1, "", ())
    assert (found.importance, found.created_ts) == (Importance.NORMAL, 3)


def test_products_are_the_projects_that_name_them() -> None:
    documents = {
        1: Document("a", "", "", {"project_id": 1, "product_id": 9}),
        2: Document("b", "", "", {"project_id": 2, "product_id": 9}),
        3: Document("c", "", "", {"project_id": 3}),
    }
    assert products(documents) == {9: frozenset({1, 2})}


def test_params_become_filters() -> None:
    params: dict[str, Scalar] = {
        "importance": "low,high",
        "direction": "inbox",
        "agent_name": "Bob",
        "min_ts": 5,
    }
    asked = question("x", SearchMode.LEXICAL, 7, params)
    assert asked.importance == (Importance.LOW, Importance.HIGH)
    assert (asked.direction, asked.agent_name, asked.limit) == (Direction.INBOX, "Bob", 7)
    assert asked.time_range == TimeRange(5, None)


def test_filters_become_the_same_params_again() -> None:
    asked = SearchQuery(
        "x",
        limit=7,
        project_id=3,
        product_id=5,
        importance=(Importance.HIGH, Importance.LOW),
        direction=Direction.OUTBOX,
        agent_name="Ann",
        thread_id="t",
        ack_required=False,
        time_range=TimeRange(0, 9),
        sender_name="Ann",
        recipient_name="Bob",
        min_score=0.25,
        ranking=RankingMode.RECENCY,
    )
    assert set(params_of(asked)) == set(KNOWN)
    assert question("x", SearchMode.LEXICAL, 7, params_of(asked)) == asked
    assert params_of(SearchQuery("x")) == {}


@pytest.mark.parametrize("params", [{"colour": "red"}, {"importance": "huge"}, {"project_id": "x"}])
def test_a_param_that_means_nothing_is_refused(params: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery):
        question("x", SearchMode.LEXICAL, 7, params)
