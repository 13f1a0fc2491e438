"""Coordination traffic of software agents, made up: it proves plumbing, and not quality.

Documents are messages of interleaved conversations about concepts that happen to components.
Queries ask for the same in words of their own (``lexicon.py``). Since every message knows
what it says, judgements need no guess. Grade 2 says it, grade 1 is of a conversation about it, and
whatever else is in the corpus is not relevant, judged or not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field

from agent_mail import filters, questions
from agent_mail.dice import Dice, Lots
from agent_mail.filters import passes
from agent_mail.lexicon import lexicon
from agent_mail.message import Fact, Message, Posted
from agent_mail.needs import Mark, Need, marks
from agent_mail.traffic import traffic
from harness.core.errors import DatasetError
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.store import StrictModel
from harness.corpus.card import Count

SPARE = 4
"""So many times more is drawn than is requested: some queries turn out unfit."""
STATED = ("topic", "phrase", "hostile", "negative", *filters.NAMES)
"""Kinds of queries for a message that says something, in English."""
KINDS = ("identifier", "foreign", "edited", *STATED)

Chosen = Mapping[str, Sequence[Message]]
"""Messages to ask of, by kind of query."""
CONTRAST = 4
"""Messages of grade 0 that are judged for each query; all others without a grade are 0 too."""
PARTS = {"filter": 2, "language": 6}
"""Slices that are made of others get so much less of each."""


class Traffic(StrictModel):
    """How the set is made: the table ``[make]`` of its card."""

    messages: Annotated[int, Field(ge=1_000)]
    """In the corpus, after edits and deletions."""
    seed: Count
    queries: Annotated[int, Field(ge=2)]
    """At most so many of each slice; half as many of each filter, a sixth of each language."""


@dataclass(frozen=True, slots=True)
class AgentMail:
    """The data set; ``documents`` are made while they are read, and can be read once."""

    documents: Iterator[Document]
    queries: tuple[Query, ...]
    qrels: Qrels


def generate(settings: Traffic) -> AgentMail:
    """Make the data set; the same settings give the same, on every machine.

    Only queries and judgements are kept, no message; memory grows with these alone.

    Raises:
        DatasetError: there are too few messages for a slice.
    """
    seed, size = settings.seed, settings.messages
    chosen = choose(traffic(seed, size), seed, settings.queries)
    judged = _kept(judge(list(needs(chosen, seed)), _live(seed, size), seed), settings.queries)
    numbers: Counter[str] = Counter()
    queries: list[Query] = []
    rows: list[Judgement] = []
    for need, grades in judged:
        kind = need.slices[-1]
        numbers[kind] += 1
        query_id = f"{kind}-{numbers[kind]:03}"
        queries.append(Query(query_id, need.text, need.slices, need.intent, need.params))
        rows += [Judgement(query_id, str(number), grade) for number, grade in grades.items()]
    documents = (message.document() for message in _live(seed, size))
    return AgentMail(documents, tuple(queries), Qrels.of(rows))


def _live(seed: int, size: int) -> Iterator[Message]:
    return (posted.last for posted in traffic(seed, size) if posted.last is not None)


def _kept(judged: "list[Judged]", per_slice: int) -> "list[Judged]":
    """Keep the first so many that are fit of each slice; of a filter and a language, fewer."""
    kept: list[Judged] = []
    counts: Counter[str] = Counter()
    for one in judged:
        kind = one.need.slices[-1]
        parts = PARTS.get(kind.partition("-")[0], 1)
        if one.fit and counts[kind] * parts < per_slice:
            counts[kind] += 1
            kept.append(one)
    missing = {one.need.slices[-1] for one in judged} - counts.keys()
    if missing:
        raise DatasetError(
            f"no query of {', '.join(sorted(missing))} could be made; raise the messages"
        )
    return kept


class Judged(NamedTuple):
    """A need and its grades by message."""

    need: Need
    grades: Mapping[int, int]

    @property
    def fit(self) -> bool:
        """Whether what the need asks of its judgements is so."""
        graded = self.grades.values()
        if self.need.negative:
            return bool(graded) and max(graded) == 0
        return max(graded, default=0) == max(self.need.wanted.values()) and (
            not self.need.contrast or min(graded) == 0
        )


def judge(needs: Sequence[Need], messages: Iterable[Message], seed: int) -> list[Judged]:
    """Grade all that is relevant, and some that is not, drawn by lot."""
    wanted: dict[Mark, list[int]] = defaultdict(list)
    for at, need in enumerate(needs):
        for mark in need.wanted:
            wanted[mark].append(at)
    relevant: list[dict[int, int]] = [{} for _ in needs]
    others: list[Lots[int]] = [Lots(seed + at, CONTRAST) for at in range(len(needs))]
    for message in messages:
        best: dict[int, int] = {}
        for mark in marks(message):
            for at in wanted.get(mark, ()):
                best[at] = max(best.get(at, 0), needs[at].wanted[mark])
        for at, grade in best.items():
            if grade and passes(message, needs[at].params):
                relevant[at][message.message_id] = grade
            else:
                others[at].offer(message.message_id, message.message_id)
    return [
        Judged(need, relevant[at] | dict.fromkeys(others[at].drawn(), 0))
        for at, need in enumerate(needs)
    ]


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
