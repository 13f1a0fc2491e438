"""Filters as a query carries them, and whether a message passes."""

from collections.abc import Mapping

from agent_mail.dice import Dice
from agent_mail.message import Message
from harness.core.records import Scalar

NAMES = (
    "project",
    "product",
    "importance",
    "direction",
    "thread",
    "ack",
    "time",
    "sender",
    "recipient",
)
SAME = {
    "project": "project_id",
    "product": "product_id",
    "thread": "thread_id",
    "ack": "ack_required",
}
"""Filters that a message passes whose field of that name is the same."""
HOUR_US = 3_600 * 1_000_000


def params(name: str, message: Message, dice: Dice) -> dict[str, Scalar]:
    """Draw a filter of this name that ``message`` passes.

    The names are those of the stack's query; ``importance`` may list several with commas, any of
    which passes; ``min_ts`` and ``max_ts`` are inclusive, in microseconds since 1970 UTC.
    """
    if name in SAME:
        return {SAME[name]: getattr(message, SAME[name])}
    recipient = dice.choice(message.recipients)
    match name:
        case "importance":
            return {name: "high,urgent" if message.importance == "high" else message.importance}
        case "direction":
            inbox = dice.chance(0.5)
            agent = recipient if inbox else message.sender
            return {"agent_name": agent, name: "inbox" if inbox else "outbox"}
        case "time":
            return _around(message.created_ts, dice)
        case "sender":
            return {"sender_name": message.sender}
        case _:
            return {"recipient_name": recipient}


def passes(message: Message, wanted: Mapping[str, Scalar]) -> bool:
    """Tell whether a message passes all filters."""
    return all(_passes(message, name, value, wanted) for name, value in wanted.items())


def _around(created_ts: int, dice: Dice) -> dict[str, Scalar]:
    ends: dict[str, Scalar] = {
        "max_ts": created_ts + dice.below(3 * HOUR_US),
        "min_ts": created_ts - dice.below(3 * HOUR_US),
    }
    if dice.chance(0.3):
        ends.pop(dice.choice(sorted(ends)))
    return ends


def _passes(message: Message, name: str, value: Scalar, wanted: Mapping[str, Scalar]) -> bool:
    match name:
        case "importance":
            return message.importance in str(value).split(",")
        case "agent_name" | "sender_name" | "recipient_name":
            outbox = name == "sender_name" or (
                name == "agent_name" and wanted["direction"] == "outbox"
            )
            return value in ((message.sender,) if outbox else message.recipients)
        case "direction":
            return True
        case "min_ts":
            return message.created_ts >= int(value or 0)
        case "max_ts":
            return message.created_ts <= int(value or 0)
        case _:
            return bool(getattr(message, name) == value)
