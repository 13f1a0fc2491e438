"""The filters of section 7.1 as Tantivy queries that choose and do not score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import tantivy

from engines.stacks.agent_mail.contract.query import Direction, Filters, TimeRange

LEAST, MOST = -(2**63), 2**63 - 1
"""What a signed field holds; no message has a number beyond."""


def restricted(query: tantivy.Query, filters: Filters, schema: tantivy.Schema) -> tantivy.Query:
    """Keep of ``query`` what passes all of ``filters``; its scores stay as they are.

    Each filter must match and adds 0 to the score, so nothing is filtered after it was counted.
    A project wins over a product (section 7.2), and a direction without an agent filters nothing.
    """
    parts = list(_parts(filters, schema))
    if not parts:
        return query
    must = tantivy.Occur.Must
    return tantivy.Query.boolean_query([
        (must, query),
        *((must, tantivy.Query.const_score_query(part, 0.0)) for part in parts),
    ])


def everything(filters: Filters, schema: tantivy.Schema) -> tantivy.Query:
    """Ask for all messages that pass ``filters``, each with score 0."""
    whole = tantivy.Query.const_score_query(tantivy.Query.all_query(), 0.0)
    return restricted(whole, filters, schema)


def _parts(filters: Filters, schema: tantivy.Schema) -> Iterator[tantivy.Query]:
    if filters.project_id is not None:
        yield among(schema, "project_id", [filters.project_id])
    elif filters.product_projects is not None:
        yield among(schema, "project_id", filters.product_projects)
    if filters.importance:
        yield _named(schema, "importance", *sorted(level.value for level in filters.importance))
    if filters.ack_required is not None:
        yield among(schema, "ack_required", [int(filters.ack_required)])
    if not filters.time_range.is_open:
        yield _within(schema, filters.time_range)
    if filters.thread_id is not None:
        yield _named(schema, "thread_id", filters.thread_id)
    if filters.sender_name is not None:
        yield _named(schema, "sender_name", filters.sender_name)
    if filters.recipient_name is not None:
        yield _named(schema, "recipients", filters.recipient_name)
    if filters.agent_name is not None:
        yield _agent(schema, filters.agent_name, filters.direction)


def _agent(schema: tantivy.Schema, name: str, direction: Direction | None) -> tantivy.Query:
    """Match who sent, who received, or either where no direction is given."""
    match direction:
        case Direction.OUTBOX:
            return _named(schema, "sender_name", name)
        case Direction.INBOX:
            return _named(schema, "recipients", name)
        case None:
            should = tantivy.Occur.Should
            roles = ("sender_name", "recipients")
            return tantivy.Query.boolean_query([
                (should, _named(schema, role, name)) for role in roles
            ])


def among(schema: tantivy.Schema, field: str, values: Iterable[int]) -> tantivy.Query:
    """Match any of ``values`` of an integer field; an empty set matches nothing."""
    held = sorted(value for value in values if LEAST <= value <= MOST)
    return tantivy.Query.term_set_query(schema, field, held)


def _named(schema: tantivy.Schema, field: str, *values: str) -> tantivy.Query:
    """Match any of ``values`` whole; half a surrogate pair is in no message."""
    held = [value for value in values if not _is_broken(value)]
    return tantivy.Query.term_set_query(schema, field, held)


def _is_broken(value: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in value)


def _within(schema: tantivy.Schema, asked: TimeRange) -> tantivy.Query:
    """Match times between the bounds, both included, read from the fast field."""
    low = LEAST if asked.min_ts is None else asked.min_ts
    high = MOST if asked.max_ts is None else asked.max_ts
    if low > high or low > MOST or high < LEAST:
        return tantivy.Query.empty_query()
    return tantivy.Query.range_query(
        schema,
        "created_ts",
        tantivy.FieldType.Integer,
        lower_bound=max(low, LEAST),
        upper_bound=min(high, MOST),
    )
