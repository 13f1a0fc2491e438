"""Random messages, questions and filters from a seed, and by hand what a filter lets pass."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from harness_engines.stacks.agent_mail.contract import (
    Direction,
    Filters,
    Importance,
    Message,
    TimeRange,
)
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind, MessageStore, create

PROJECTS: Mapping[int, str] = {1: "harbour", 2: "orchard", 3: "quarry", 7: "lighthouse"}
PRODUCTS: Mapping[int, frozenset[int]] = {
    1: frozenset({1, 2}),
    2: frozenset({2, 3, 7}),
    3: frozenset(),
}
"""Projects of each product; the last has none."""
AGENTS = ("AmberFox", "SlateHeron", "OchreWolf", "TealOtter", "Zoë", "小林")
THREADS = ("", "br-2tnl", "br-9kq0", "FEAT-12", "br-2tnl.1")
IDENTIFIERS = (
    "br-2tnl", "br-2tnl.1.3", "br-9kq0", "read_csv", "src/app/main.py", "v1.2.3",
    "AM_SEARCH_ENGINE", "feature/quiet-mode",
)  # fmt: skip
PHRASES = (
    "the deployment failed on the staging host",
    "please review the migration plan before noon",
    "search index rebuild finished",
    "crash in the parser",
    "rollout problems again",
    "lock contention while writing the index",
    "review requested",
    "100% of a_b tests pass \\ done",
    'she said "ship it"',
    "die Auslieferung ist fehlgeschlagen, bitte prüfen",
    "le déploiement a échoué ce matin",
    "сбой при развёртывании сервиса",
    "部署 失败 请 检查",
    "デプロイ に 失敗 しました",
    "η ανάπτυξη απέτυχε",
    "فشل النشر هذا الصباح",
    "done 🎉 🚀",
    "NOT now AND never OR later",
)
T = TypeVar("T")
NOON, STEP = 1_770_000_000_000_000, 60_000_000
"""Microseconds: when the earliest message was sent, and the grain of the clock."""
MINUTES = 40
"""Few, so that times tie."""


@dataclass(frozen=True, slots=True)
class Mail:
    """Messages by id, with gaps between the ids, in the projects and products above."""

    messages: tuple[Message, ...]

    @property
    def by_id(self) -> Mapping[int, Message]:
        """Every message."""
        return {message.message_id: message for message in self.messages}


PLAIN = Message(1, 1, "", "", "AmberFox", ("SlateHeron",), "", Importance.NORMAL, False, NOON)  # noqa: FBT003


def one(message_id: int = 1, subject: str = "", body: str = "", **told: Any) -> Message:  # noqa: ANN401  fields of Message
    """Make a message in which only what a test is about is named."""
    return replace(PLAIN, message_id=message_id, subject=subject, body=body, **told)


@contextmanager
def stored(path: Path, messages: Iterable[Message]) -> Iterator[MessageStore]:
    """Make a store of ``messages`` with the projects and products above, open for writing."""
    with create(path) as store:
        for project_id, slug in PROJECTS.items():
            store.add_project(project_id, slug)
        for product_id, projects in PRODUCTS.items():
            store.add_product(product_id, f"product-{product_id}", projects)
        store.insert_all((message, kinds(message)) for message in messages)
        yield store


def kinds(message: Message) -> Mapping[str, AddressKind]:
    """Address a message to its first recipient, cc the second, bcc the third."""
    return dict(zip(message.recipients, AddressKind, strict=False))


def some_mail(seed: int, count: int) -> Mail:
    """Make ``count`` messages; the same seed gives the same messages."""
    rng = Random(seed)
    message_id = 0
    made = []
    for _ in range(count):
        message_id += rng.choice((1, 1, 1, 2, 5))
        made.append(some_message(rng, message_id))
    return Mail(tuple(made))


def some_message(rng: Random, message_id: int) -> Message:
    """Make a random message of a given id."""
    return Message(
        message_id,
        rng.choice(tuple(PROJECTS)),
        _words(rng, rng.randint(0, 2)),
        _words(rng, rng.randint(0, 4)),
        rng.choice(AGENTS),
        tuple(rng.sample(AGENTS, rng.randint(0, 3))),
        rng.choice(THREADS),
        rng.choice(tuple(Importance)),
        rng.random() < 0.5,
        NOON + STEP * rng.randrange(MINUTES),
    )


def some_filters(rng: Random) -> Filters:
    """Choose a few filters; most of them let some of the messages pass."""
    times = sorted(NOON + STEP * rng.randrange(-2, MINUTES + 2) for _ in range(2))
    return Filters(
        project_id=_maybe(rng, rng.choice((*PROJECTS, 99))),
        product_projects=_maybe(rng, rng.choice(tuple(PRODUCTS.values()))),
        importance=_maybe(rng, frozenset(rng.sample(tuple(Importance), rng.randint(1, 3))))
        or frozenset(),
        direction=_maybe(rng, rng.choice(tuple(Direction)), 0.4),
        agent_name=_maybe(rng, rng.choice((*AGENTS, "nobody", "amberfox")), 0.4),
        thread_id=_maybe(rng, rng.choice((*THREADS, "BR-2TNL"))),
        ack_required=_maybe(rng, value=rng.random() < 0.5),
        time_range=TimeRange(_maybe(rng, times[0], 0.3), _maybe(rng, times[1], 0.3)),
        sender_name=_maybe(rng, rng.choice((*AGENTS, "Zoe"))),
        recipient_name=_maybe(rng, rng.choice(AGENTS)),
    )


def _maybe(rng: Random, value: T, share: float = 0.2) -> T | None:
    return value if rng.random() < share else None


def some_text(rng: Random) -> str:
    """Choose what somebody may type: words, an identifier, a phrase, signs; at times nothing."""
    words = [word for phrase in rng.sample(PHRASES, 2) for word in phrase.split()]
    kind = rng.randrange(8)
    if kind == 0:
        return ""
    if kind == 1:
        return rng.choice(IDENTIFIERS)
    if kind == 2:
        return f'"{rng.choice(PHRASES)}"'
    if kind == 3:
        return f"+{rng.choice(words)} {rng.choice(words)} -{rng.choice(words)}"
    return " ".join(rng.sample(words, rng.randint(1, min(4, len(words)))))


def passes(message: Message, filters: Filters) -> bool:
    """Say whether a message passes (section 7), written apart from every engine.

    A project wins over a product. A direction without an agent filters nothing; an agent without
    a direction is sender or recipient.
    """
    agent, inbox, outbox = filters.agent_name, True, True
    if agent is None:
        agent_passes = True
    else:
        inbox = filters.direction is not Direction.OUTBOX
        outbox = filters.direction is not Direction.INBOX
        agent_passes = (inbox and agent in message.recipients) or (
            outbox and agent == message.sender_name
        )
    if filters.project_id is not None:
        within = message.project_id == filters.project_id
    else:
        products = filters.product_projects
        within = products is None or message.project_id in products
    earliest, latest = filters.time_range.min_ts, filters.time_range.max_ts
    return (
        within
        and agent_passes
        and (not filters.importance or message.importance in filters.importance)
        and filters.thread_id in {None, message.thread_id}
        and filters.ack_required in {None, message.ack_required}
        and (earliest is None or earliest <= message.created_ts)
        and (latest is None or message.created_ts <= latest)
        and filters.sender_name in {None, message.sender_name}
        and (filters.recipient_name is None or filters.recipient_name in message.recipients)
    )


def _words(rng: Random, phrases: int) -> str:
    chosen = [rng.choice(PHRASES) for _ in range(phrases)]
    chosen += [rng.choice(IDENTIFIERS)] if rng.random() < 0.4 else []
    rng.shuffle(chosen)
    return " ".join(chosen)
