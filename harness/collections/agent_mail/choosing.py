"""Of which messages the queries are made: drawn by lot in one pass over all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.collections.agent_mail import filters, questions
from harness.collections.agent_mail.dice import Dice, Lots
from harness.collections.agent_mail.lexicon import lexicon
from harness.collections.agent_mail.message import Fact, Message, Posted
from harness.collections.agent_mail.needs import Need

SPARE = 4
"""So many times more is drawn than is requested: some queries turn out unfit."""
STATED = ("topic", "phrase", "hostile", "negative", *filters.NAMES)
"""Kinds of queries for a message that says something, in English."""
KINDS = ("identifier", "foreign", "edited", *STATED)

Chosen = Mapping[str, Sequence[Message]]
"""Messages to ask of, by kind of query."""


def choose(posted: Iterable[Posted], seed: int, per_slice: int) -> Chosen:
    """Draw messages of each kind."""
    lots: dict[str, Lots[Message]] = {
        kind: Lots(seed * len(KINDS) + at, per_slice * SPARE) for at, kind in enumerate(KINDS)
    }
    for one in posted:
        if one.last is not None:
            for kind in _fit(one, one.last):
                lots[kind].offer(one.last.message_id, one.last)
    return {kind: found.drawn() for kind, found in lots.items()}


def needs(chosen: Chosen, seed: int) -> Iterator[Need]:
    """Make the queries, those of one slice in the order of the lots; no text twice."""
    seen: set[tuple[str, tuple[tuple[str, object], ...]]] = set()
    for need in _all(chosen, seed):
        key = (need.text, tuple(sorted(need.params.items())))
        if key not in seen:
            seen.add(key)
            yield need


def _fit(posted: Posted, message: Message) -> Iterator[str]:
    yield "identifier"
    if message.states and message.language != "en":
        yield "foreign"
    elif message.states:
        yield from STATED
        if posted.first is not posted.last:
            yield "edited"


def _all(chosen: Chosen, seed: int) -> Iterator[Need]:
    dice = {kind: Dice(seed, "ask", kind) for kind in KINDS}
    yield from _topics(chosen["topic"], dice["topic"])
    for kind, ask in (
        ("identifier", questions.identifier),
        ("phrase", questions.phrase),
        ("edited", questions.edited),
    ):
        for message in chosen[kind]:
            yield from ask(message, dice[kind])
    for message in chosen["foreign"]:
        yield from questions.foreign(message)
    for name in filters.NAMES:
        for message in chosen[name]:
            yield from questions.filtered(name, message, dice[name])
    for number, message in enumerate(chosen["negative"]):
        yield from questions.unanswered(number, message, dice["negative"])
    yield from _hostile(chosen["hostile"], dice["hostile"])


def _topics(messages: Sequence[Message], dice: Dice) -> Iterator[Need]:
    told: set[Fact] = set()
    for message in messages:
        if message.states[0] not in told:
            told.add(message.states[0])
            yield from questions.topic(len(told), message, dice)


def _hostile(messages: Sequence[Message], dice: Dice) -> Iterator[Need]:
    """Take turns: one that must be answered, one that cannot be."""
    for number, message in enumerate(messages):
        yield from questions.hostile(number, message, dice)
        if number < len(lexicon().junk):
            yield questions.junk(number, dice)
