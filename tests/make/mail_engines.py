"""Tantivy over messages in memory, and a small live index looked into from outside."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tantivy

from harness.core.records import Document
from harness_engines.lexical.tantivy import analyzer
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.contract import (
    Changes,
    Filters,
    Message,
    MessageCandidate,
    RankingMode,
)
from harness_engines.stacks.agent_mail.pipeline.pages import text_of
from harness_engines.stacks.agent_mail.sqlite import store
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness_engines.stacks.agent_mail.tantivy.index import ANALYZER
from harness_engines.vector import amvi
from harness_engines.vector.embedder import HashEmbedder
from tests.engines.agent_mail.whole import DOCUMENTS, SETTINGS, WEIGHTS, Log

ALL = 1_000_000
"""A depth that shows every message."""
NONE = Filters()


@dataclass
class Source:
    """Messages by id, as a table would give them."""

    by_id: dict[int, Message] = field(default_factory=dict)

    def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
        return [self.by_id[at] for at in sorted(self.by_id) if at > since_id][:limit]

    def total_count(self) -> int:
        return len(self.by_id)


@dataclass
class Case:
    """An engine, its source, and what it told."""

    engine: TantivyMailEngine
    source: Source
    told: Log

    def ids(self, text: str, *given: Any, **named: Any) -> list[int]:  # noqa: ANN401  as below
        return [at for at, _ in self.candidates(text, *given, **named)]

    def candidates(
        self,
        text: str,
        filters: Filters = NONE,
        ranking: RankingMode = RankingMode.RELEVANCE,
        depth: int = ALL,
    ) -> Sequence[MessageCandidate]:
        return self.engine.search(text, filters, ranking, depth).candidates

    def fresh(self) -> "Case":
        """Return another engine on the same folder, with nothing open yet."""
        return case(self.engine.root, self.source.by_id.values())


def case(root: Path, messages: Iterable[Message]) -> Case:
    """Make an engine; nothing is built."""
    source, told = Source({m.message_id: m for m in messages}), Log()
    return Case(TantivyMailEngine(root, source, told.emit, WEIGHTS), source, told)


def built(root: Path, messages: Iterable[Message]) -> Case:
    """Make an engine and its index, and forget what it told."""
    made = case(root, messages)
    made.engine.rebuild()
    made.told.events.clear()
    return made


def upserts(*messages: Message) -> Changes:
    return {message.message_id: message for message in messages}


def arm_of(folder: Path, **changed: object) -> mail.Mail:
    return mail.Mail(mail.MailSettings.model_validate({**SETTINGS, **changed}), folder / "cache")


def built_live(folder: Path, documents: Sequence[Document] = DOCUMENTS, **changed: object) -> Path:
    """Build an index below ``folder``."""
    index = folder / "index"
    index.mkdir(parents=True)
    arm_of(folder, **changed).build(documents, index)
    return index


@contextmanager
def served(folder: Path, **changed: object) -> Iterator[MailSearcher]:
    """Open the index below ``folder``, as a process does."""
    with arm_of(folder, **changed).open(folder / "index") as searcher:
        assert isinstance(searcher, MailSearcher)
        yield searcher


def in_fts5(index: Path) -> list[int]:
    """List the rows of FTS5, which SQLite itself compares with the table."""
    with store.opened(index / mail.STORE, write=True) as opened:
        opened.db.execute(
            "INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)"
        )
        return [row[0] for row in opened.read("SELECT id FROM messages_fts_docsize ORDER BY id")]


def in_tantivy(index: Path) -> list[tuple[int, str, str]]:
    """List ids, subjects and bodies of Tantivy, each as often as it is there."""
    opened = tantivy.Index.open(str(index / mail.TANTIVY / "index"))
    opened.register_tokenizer(ANALYZER, analyzer("none"))
    searcher = opened.searcher()
    hits = searcher.search(tantivy.Query.all_query(), limit=max(searcher.num_docs, 1)).hits
    found = [searcher.doc(address) for _, address in hits]
    return sorted((one["message_id"][0], one["subject"][0], one["body"][0]) for one in found)


def check_agree(index: Path) -> None:
    """Assert that all three indexes hold what the table holds, and nothing twice."""
    with store.opened(index / mail.STORE) as opened:
        messages = {one.message_id: one for one in opened.fetch_batch(-(2**63), 10**6)}
    ids = sorted(messages)
    assert in_fts5(index) == ids
    assert in_tantivy(index) == [(one, messages[one].subject, messages[one].body) for one in ids]
    embedder = HashEmbedder()
    vectors = amvi.AmviIndex.open(index / mail.VECTORS, embedder.identity, embedder.dimension)
    assert vectors.message_ids.tolist() == ids
    fresh = embedder.embed([text_of(messages[one]) for one in ids]).astype("float16")
    assert (vectors.vectors == fresh).all()
