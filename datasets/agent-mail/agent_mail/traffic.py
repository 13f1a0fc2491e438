"""All messages in the order of their numbers, one block at a time.

A block rests on the seed and its own number, so memory does not grow with the size, and a
smaller corpus is the beginning of a larger one.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from agent_mail.dice import Dice
from agent_mail.lexicon import lexicon
from agent_mail.message import Fact, Message, Posted
from agent_mail.threads import Thread, Written, plan
from agent_mail.world import World

BLOCK = 200
"""Messages sent."""
DELETED, EDITED = 2, 3
"""Of them."""
BLOCK_US = 4 * 3_600 * 1_000_000
BEGIN_US = 1_736_121_600 * 1_000_000
"""2025-01-06, midnight UTC."""


def traffic(seed: int, size: int) -> Iterator[Posted]:
    """Yield what was posted, with the outcome of it, until ``size`` messages are left of it."""
    world = World.of(seed)
    left = size
    for number in count():
        for posted in block(world, number):
            yield posted
            left -= posted.last is not None
            if not left:
                return


def block(world: World, number: int) -> list[Posted]:
    """Draw one block of conversations, interleaved."""
    dice, words = Dice(world.seed, "block", number), lexicon()
    rows: list[tuple[int, int, int, Thread, Written]] = []
    thread: Thread | None = None
    while len(rows) < BLOCK:
        thread = plan(world, words, dice, thread, BLOCK - len(rows))
        start, at = dice.below(BLOCK_US), len(rows)
        times = sorted(start + dice.below(BLOCK_US - start) for _ in range(thread.length - 1))
        for place, (when, written) in enumerate(
            zip([start, *times], thread.written(dice), strict=True)
        ):
            rows.append((when, at, place, thread, written))
    rows.sort(key=lambda row: row[:3])
    first = 1 + number * BLOCK
    begin = BEGIN_US + number * BLOCK_US
    messages = [
        _message(first + at, begin + when, thread, written)
        for at, (when, _, _, thread, written) in enumerate(rows)
    ]
    return _changed(messages, dice)


def _message(number: int, when: int, thread: Thread, written: Written) -> Message:
    return Message(
        message_id=number,
        project_id=written.project.project_id,
        product_id=written.project.product_id,
        thread_id=thread.thread_id,
        sender=written.sender,
        recipients=written.recipients,
        importance=thread.importance,
        ack_required=thread.ack_required,
        created_ts=when,
        language=thread.language,
        subject=written.subject,
        body=written.body,
        states=written.states,
        follows=written.follows,
    )


def _changed(messages: list[Message], dice: Dice) -> list[Posted]:
    """Delete some, and let some have been about another component before they were edited."""
    deleted = set(dice.some(range(len(messages)), DELETED))
    open_to_edits = [
        at
        for at, message in enumerate(messages)
        if at not in deleted and message.states and not message.follows
    ]
    edited = set(dice.some(open_to_edits, EDITED))
    return [
        Posted(message, None)
        if at in deleted
        else _edited(message, dice)
        if at in edited
        else Posted(message, message)
        for at, message in enumerate(messages)
    ]


def _edited(message: Message, dice: Dice) -> Posted:
    components, notes = lexicon().components, lexicon().prose["edits"]
    (fact,) = message.states
    wrong = dice.choice([name for name in components if name != fact.component])
    first = replace(
        message,
        subject=message.subject.replace(fact.component, wrong),
        body=message.body.replace(fact.component, wrong),
        states=(Fact(fact.concept, wrong),),
    )
    return Posted(first, replace(message, body=f"{message.body}\n\n{dice.choice(notes)}"))
