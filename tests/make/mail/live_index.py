"""A small live index: built, written to, and looked into from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tantivy

from harness.core.records import Document
from harness_engines.lexical.tantivy import analyzer
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.contract import Message
from harness_engines.stacks.agent_mail.pipeline.retrievers import text_of
from harness_engines.stacks.agent_mail.sqlite import store
from harness_engines.stacks.agent_mail.tantivy.index import ANALYZER
from harness_engines.vector import amvi
from harness_engines.vector.embedder import HashEmbedder
from tests.engines.agent_mail.tools import DOCUMENTS, SETTINGS


def arm_of(folder: Path, **changed: object) -> mail.Mail:
    return mail.Mail(mail.MailSettings.model_validate({**SETTINGS, **changed}), folder / "cache")


def built(folder: Path, documents: list[Document] = DOCUMENTS, **changed: object) -> Path:
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


def table(index: Path) -> dict[int, Message]:
    """Read the messages that are in the table."""
    with store.opened(index / mail.STORE) as opened:
        return {one.message_id: one for one in opened.fetch_batch(-(2**63), 10**6)}


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


def in_vectors(index: Path) -> amvi.AmviIndex:
    embedder = HashEmbedder()
    return amvi.AmviIndex.open(index / mail.VECTORS, embedder.identity, embedder.dimension)


def check_agree(index: Path) -> None:
    """Assert that all three indexes hold what the table holds, and nothing twice."""
    messages = table(index)
    ids = sorted(messages)
    assert in_fts5(index) == ids
    assert in_tantivy(index) == [(one, messages[one].subject, messages[one].body) for one in ids]
    vectors = in_vectors(index)
    assert vectors.message_ids.tolist() == ids
    fresh = HashEmbedder().embed([text_of(messages[one]) for one in ids]).astype("float16")
    assert (vectors.vectors == fresh).all()
