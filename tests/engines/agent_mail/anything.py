"""Messages with every field random, questions of every kind, and by columns what filters pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness_engines.stacks.agent_mail.contract import (
    Direction,
    Filters,
    Importance,
    Message,
    RankingMode,
    TimeRange,
)
from tests.make.mail_messages import PHRASES, PRODUCTS, PROJECTS

NAMES = (
    "AmberFox", "amberfox", "Amber", "Zoë", "Zoe\u0308", "小林", "", " ", "a'b", 'a"b', "%", "_",
    "O", "NULL", "x\0y", "x", "😀", "علي", "to", "Ω" * 70,
)  # fmt: skip
"""Few, so that filters meet them; some differ by case, by accents, or by what follows a NUL."""
THREADS = ("", "br-2tnl", "BR-2TNL", "br", "br-2tnl.1", "%", "小", "\0", " br", "t" * 300)
SIGNS = " \t\n\0-_./*+\"'()[]{}<>:^~\\%&|!?,;😀é\u0301小林шفη٣Ⅷ\u200f\ufeff\U000e0041Aa1"
TIMES = (0, 1, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, *range(1_770_000_000, 1_770_000_020))
T = TypeVar("T")
Mask = NDArray[np.bool_]


class Case(NamedTuple):
    """A question for an engine."""

    text: str
    filters: Filters
    ranking: RankingMode
    depth: int


def messages(seed: int, count: int) -> tuple[Message, ...]:
    """Make ``count`` messages in the projects of ``build``, by id; ids may be negative and huge."""
    rng = Random(seed)
    ids = (*rng.sample(range(-20, 3 * count), count - 2), 2**62, -(2**62))
    return tuple(_message(rng, message_id) for message_id in sorted(ids))


def text(rng: Random) -> str:
    """Write something: words, signs in any order, a phrase, or nothing."""
    kind = rng.randrange(6)
    if kind == 0:
        return ""
    words = [word for phrase in rng.sample(PHRASES, 2) for word in phrase.split()]
    if kind == 1:
        return "".join(rng.choices(SIGNS, k=rng.randint(1, 30)))
    if kind == 2:
        return f'{rng.choice("+-")}{rng.choice(words)} "{rng.choice(PHRASES)}"'
    return " ".join(rng.choices(words, k=rng.randint(1, 6)))


def filters(rng: Random) -> Filters:
    """Choose filters, most of them few, with values that messages have and some that none has."""
    low, high = rng.choice(TIMES) - rng.randint(0, 1), rng.choice(TIMES) + rng.randint(0, 1)
    return Filters(
        project_id=_maybe(rng, rng.choice((*PROJECTS, -1, 2**70))),
        product_projects=_maybe(rng, rng.choice((*PRODUCTS.values(), frozenset({1, -(2**70)})))),
        importance=_maybe(rng, frozenset(rng.choices(tuple(Importance), k=2))) or frozenset(),
        direction=_maybe(rng, rng.choice(tuple(Direction)), 0.4),
        agent_name=_maybe(rng, rng.choice((*NAMES, "\ud800")), 0.4),
        thread_id=_maybe(rng, rng.choice((*THREADS, "\udfff"))),
        ack_required=_maybe(rng, value=rng.random() < 0.5),
        time_range=TimeRange(_maybe(rng, low, 0.15), _maybe(rng, high, 0.15)),
        sender_name=_maybe(rng, rng.choice((*NAMES, "nobody")), 0.15),
        recipient_name=_maybe(rng, rng.choice((*NAMES, "no\0body"))),
    )


def cases(seed: int, texts: Sequence[str]) -> Iterator[Case]:
    """Ask without end; the first of a seed are always the same."""
    rng = Random(seed)
    rankings, depths = tuple(RankingMode), (0, 1, 3, 20, 10_000, 10_000)
    while True:
        yield Case(rng.choice(texts), filters(rng), rng.choice(rankings), rng.choice(depths))


@dataclass(frozen=True)
class Columns:
    """Messages by field, so that a case costs microseconds; arrays have shape (messages,)."""

    ids: tuple[int, ...]
    project: Mapping[int, Mask]
    importance: Mapping[Importance, Mask]
    thread: Mapping[str, Mask]
    sender: Mapping[str, Mask]
    recipient: Mapping[str, Mask]
    ack: Mask
    sent: tuple[int, ...]
    """Not an array: a bound may lie beyond 64 bits."""

    def passing(self, asked: Filters) -> frozenset[int]:
        """Say which messages pass (section 7), written apart from every engine."""
        mask = self._within(asked) & self._named(asked)
        if asked.importance:
            mask &= np.any([self.importance[one] for one in asked.importance], axis=0)
        if asked.ack_required is not None:
            mask &= self.ack == asked.ack_required
        low, high = asked.time_range.min_ts, asked.time_range.max_ts
        return frozenset(
            message_id
            for message_id, sent in (
                (self.ids[at], self.sent[at]) for at in np.flatnonzero(mask).tolist()
            )
            if (low is None or low <= sent) and (high is None or sent <= high)
        )

    def _within(self, asked: Filters) -> Mask:
        if asked.project_id is not None:
            return self._of(self.project, asked.project_id)
        if asked.product_projects is not None:
            return self._any(self.project, asked.product_projects)
        return np.ones(len(self.ids), dtype=np.bool_)

    def _named(self, asked: Filters) -> Mask:
        mask = np.ones(len(self.ids), dtype=np.bool_)
        if asked.thread_id is not None:
            mask &= self._of(self.thread, asked.thread_id)
        if asked.sender_name is not None:
            mask &= self._of(self.sender, asked.sender_name)
        if asked.recipient_name is not None:
            mask &= self._of(self.recipient, asked.recipient_name)
        if asked.agent_name is not None:
            by, to = (self._of(m, asked.agent_name) for m in (self.sender, self.recipient))
            mask &= {Direction.INBOX: to, Direction.OUTBOX: by, None: by | to}[asked.direction]
        return mask

    def _of(self, masks: Mapping[T, Mask], value: T) -> Mask:
        return masks.get(value, np.zeros(len(self.ids), dtype=np.bool_))

    def _any(self, masks: Mapping[T, Mask], values: frozenset[T]) -> Mask:
        none = np.zeros(len(self.ids), dtype=np.bool_)
        for value in values:
            none |= self._of(masks, value)
        return none


def columns(mail: Sequence[Message]) -> Columns:
    """Turn messages by fields."""

    def masks(values: Sequence[frozenset[T]]) -> Mapping[T, Mask]:
        known = frozenset[T]().union(*values)
        return {one: np.array([one in found for found in values]) for one in known}

    return Columns(
        ids=tuple(m.message_id for m in mail),
        project=masks([frozenset({m.project_id}) for m in mail]),
        importance=masks([frozenset({m.importance}) for m in mail]),
        thread=masks([frozenset({m.thread_id}) for m in mail]),
        sender=masks([frozenset({m.sender_name}) for m in mail]),
        recipient=masks([frozenset(m.recipients) for m in mail]),
        ack=np.array([m.ack_required for m in mail]),
        sent=tuple(m.created_ts for m in mail),
    )


def _message(rng: Random, message_id: int) -> Message:
    return Message(
        message_id,
        rng.choice(tuple(PROJECTS)),
        text(rng),
        " ".join(text(rng) for _ in range(rng.randint(0, 3))),
        rng.choice(NAMES),
        tuple(rng.sample(NAMES, rng.choice((0, 1, 1, 2, 5)))),
        rng.choice(THREADS),
        rng.choice(tuple(Importance)),
        rng.random() < 0.5,
        rng.choice(TIMES),
    )


def _maybe(rng: Random, value: T, share: float = 0.1) -> T | None:
    return value if rng.random() < share else None
