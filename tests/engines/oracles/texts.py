"""Texts that the engines are compared on: abstracts, documentation, and coordination mail."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from agent_mail.generate import Traffic, generate
from python_docs.harvest import harvest

from harness.core.records import Document
from harness_engines.lexical.terms import identifiers
from harness_engines.stacks.agent_mail.contract import Importance, Message
from tests.engines.oracles.questions import words_of

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "datasets"


def collection(name: str) -> tuple[list[Document], list[str]]:
    """Read documents with a word in them, and questions, of a collection beside the project."""
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"no data set in {folder}")
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    documents = [Document(row["_id"], row.get("title", ""), row["text"]) for row in rows]
    asked = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return (
        [document for document in documents if words_of(document.text)],
        [json.loads(line)["text"] for line in asked],
    )


def documentation() -> list[Document]:
    """Harvest what the embedded data set is made of, of two namespaces."""
    return [
        Document(entry.name, entry.name, entry.docstring.body)
        for entry in harvest(["numpy", "scipy.stats"]).entries
        if words_of(entry.docstring.body)
    ]


def mail() -> list[Message]:
    """Make messages that have a subject, a text and an identifier.

    Lucene leaves messages without a word in a field out of that field's average length; Tantivy
    counts them.
    """
    made = generate(Traffic(messages=1_000, seed=5, queries=20)).documents
    return [
        Message(
            message_id=int(document.doc_id),
            project_id=1,
            subject=document.title,
            body=document.text,
            sender_name="",
            recipients=(),
            thread_id="",
            importance=Importance.NORMAL,
            ack_required=False,
            created_ts=0,
        )
        for document in made
        if words_of(document.title)
        and words_of(document.text)
        and identifiers(f"{document.title}\n{document.text}")
    ]
