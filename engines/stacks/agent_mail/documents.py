"""Documents of a data set as messages, and what was set beside a query as its filters."""

from __future__ import annotations

from collections.abc import Mapping

from engines.contract.errors import InvalidQuery
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.stacks.agent_mail.contract.query import (
    Direction,
    Importance,
    RankingMode,
    SearchMode,
    SearchQuery,
    TimeRange,
)
from harness.core.records import Document, Scalar

DEFAULT_PROJECT = 1
KNOWN = {
    "project_id",
    "product_id",
    "importance",
    "direction",
    "agent_name",
    "thread_id",
    "ack_required",
    "min_ts",
    "max_ts",
    "sender_name",
    "recipient_name",
    "ranking",
    "min_score",
}


def message(message_id: int, document: Document) -> Message:
    """Take a document for a message: title the subject, text the body, the rest from metadata.

    What the metadata does not say is the plainest: project 1, no sender, normal importance, and
    sent in the order of the ids.
    """
    about = document.metadata
    recipients = str(about.get("recipients") or "")
    return Message(
        message_id=message_id,
        project_id=_whole(about, "project_id", DEFAULT_PROJECT),
        subject=document.title,
        body=document.text,
        sender_name=str(about.get("sender") or ""),
        recipients=tuple(name for name in recipients.split(",") if name),
        thread_id=str(about.get("thread_id") or ""),
        importance=Importance(str(about.get("importance") or Importance.NORMAL)),
        ack_required=bool(about.get("ack_required")),
        created_ts=_whole(about, "created_ts", message_id),
    )


def products(documents: Mapping[int, Document]) -> Mapping[int, frozenset[int]]:
    """Projects of each product that the metadata names."""
    found: dict[int, set[int]] = {}
    for document in documents.values():
        product = document.metadata.get("product_id")
        if product is not None:
            project = _whole(document.metadata, "project_id", DEFAULT_PROJECT)
            found.setdefault(int(product), set()).add(project)
    return {product: frozenset(projects) for product, projects in found.items()}


def question(text: str, mode: SearchMode, limit: int, params: Mapping[str, Scalar]) -> SearchQuery:
    """Write a query with its filters.

    Raises:
        InvalidQuery: a parameter is unknown, or its value is invalid.
    """
    strange = sorted(set(params) - KNOWN)
    if strange:
        raise InvalidQuery(f"no parameter {strange[0]}; there is {', '.join(sorted(KNOWN))}")
    try:
        return SearchQuery(
            text,
            mode=mode,
            limit=limit,
            project_id=_number(params, "project_id"),
            product_id=_number(params, "product_id"),
            importance=tuple(
                Importance(level)
                for level in (_word(params, "importance") or "").split(",")
                if level
            ),
            direction=Direction(word) if (word := _word(params, "direction")) else None,
            agent_name=_word(params, "agent_name"),
            thread_id=_word(params, "thread_id"),
            ack_required=None
            if params.get("ack_required") is None
            else bool(params["ack_required"]),
            time_range=TimeRange(_number(params, "min_ts"), _number(params, "max_ts")),
            sender_name=_word(params, "sender_name"),
            recipient_name=_word(params, "recipient_name"),
            ranking=RankingMode(_word(params, "ranking") or RankingMode.RELEVANCE),
            min_score=_fraction(params, "min_score"),
        )
    except ValueError as exc:
        raise InvalidQuery(str(exc)) from exc


def params_of(query: SearchQuery) -> Mapping[str, Scalar]:
    """Write the filters of a query, those that are set, as ``question`` reads them."""
    times, direction = query.time_range, query.direction
    by_time = query.ranking is RankingMode.RECENCY
    given: dict[str, Scalar] = {
        "project_id": query.project_id,
        "product_id": query.product_id,
        "importance": ",".join(level.value for level in query.importance) or None,
        "direction": None if direction is None else direction.value,
        "agent_name": query.agent_name,
        "thread_id": query.thread_id,
        "ack_required": query.ack_required,
        "min_ts": times.min_ts,
        "max_ts": times.max_ts,
        "sender_name": query.sender_name,
        "recipient_name": query.recipient_name,
        "ranking": query.ranking.value if by_time else None,
        "min_score": query.effective_min_score,
    }
    return {name: value for name, value in given.items() if value is not None}


def _whole(about: Mapping[str, Scalar], key: str, absent: int) -> int:
    found = about.get(key)
    return absent if found is None else int(found)


def _number(params: Mapping[str, Scalar], key: str) -> int | None:
    found = params.get(key)
    return None if found is None else int(found)


def _fraction(params: Mapping[str, Scalar], key: str) -> float | None:
    found = params.get(key)
    return None if found is None else float(found)


def _word(params: Mapping[str, Scalar], key: str) -> str | None:
    found = params.get(key)
    return None if found is None else str(found)
