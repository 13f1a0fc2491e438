"""Coordination traffic of software agents, made up: it proves plumbing, and not quality.

Documents are messages of interleaved conversations about concepts that happen to components.
Queries ask for the same in words of their own (``lexicon.py``). Since every message knows
what it says, judgements need no guess. Grade 2 says it, grade 1 is of a conversation about it, and
whatever else is in the corpus is not relevant, judged or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from harness.collections.agent_mail.choosing import choose, needs
from harness.collections.agent_mail.judging import Judged, judge
from harness.collections.agent_mail.message import Message
from harness.collections.agent_mail.traffic import traffic
from harness.core.errors import DatasetError
from harness.core.qrels import Qrels
from harness.core.records import Document, Judgement, Query
from harness.corpus.card import Traffic

PARTS = {"filter": 2, "language": 6}
"""Slices that are made of others get so much less of each."""


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


def _kept(judged: list[Judged], per_slice: int) -> list[Judged]:
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
