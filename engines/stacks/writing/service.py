"""A folder of notes, kept searchable, and search in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from engines.kept.headings import headings
from engines.kept.index import Live
from engines.stacks.writing.arm import Settings, Writing
from engines.stacks.writing.planner import Context
from engines.stacks.writing.retrieval import (
    Candidate,
    LocalRerank,
    Retrieved,
    Retriever,
    VectorCache,
)
from engines.stacks.writing.store import INSERT, TABLES, Store, rows
from harness.core.errors import BadFile

SUFFIXES = frozenset({".md", ".markdown", ".txt", ".rst", ".org"})
BIGGEST = 16 << 20
VERSION = "4"
TRIGGERS = """
CREATE TRIGGER taken AFTER INSERT ON chunk BEGIN
  INSERT INTO search (rowid, title, text)
    VALUES (new.id, coalesce(new.indexed_title, new.title), coalesce(new.indexed_text, new.text));
END;
CREATE TRIGGER given_up AFTER DELETE ON chunk BEGIN
  INSERT INTO search (search, rowid, title, text)
    VALUES ('delete', old.id, coalesce(old.indexed_title, old.title),
      coalesce(old.indexed_text, old.text));
END;
"""
FIRST = 2_000
"""Characters in which a title is looked for."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Reads notes; what is kept of one are its chunks."""

    settings: Settings

    @property
    def suffixes(self) -> frozenset[str]:
        return SUFFIXES

    @property
    def biggest(self) -> int:
        return BIGGEST

    @property
    def identity(self) -> str:
        given = self.settings
        return f"notes {VERSION} {given.tokenize} {given.chunk_characters}"

    @property
    def models(self) -> str:
        return ""

    @property
    def tables(self) -> str:
        """The tables of a store; triggers keep its words in step with its chunks."""
        return TABLES.format(tokenize=self.settings.tokenize) + TRIGGERS

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> str:
        text = text_of(path, data)
        title, rest = title_of(path, text)
        db.executemany(INSERT, rows(path, title, rest, self.settings.chunk_characters))
        return ""

    def drop(self, db: sqlite3.Connection, path: str) -> None:
        db.execute("DELETE FROM chunk WHERE doc_id = ?", (path,))

    def complete(self, db: sqlite3.Connection) -> None:
        """Do nothing: notes need no model."""


def text_of(path: str, data: bytes) -> str:
    """Decode a note: UTF-8, or UTF-16 where a mark says so."""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise BadFile(path, f"is not UTF-8 ({exc.reason})", "Save it as UTF-8", line) from exc
    return text.replace("\0", "\ufffd")


def title_of(path: str, text: str) -> tuple[str, str]:
    """Take the first heading near the top for the title, else the name of the file.

    The second is the text below it: a heading that begins the note is shown as its title alone.
    """
    name = PurePosixPath(path)
    first = next(iter(headings(name.suffix.lower(), text[:FIRST])), None)
    if first is None:
        return name.stem, text
    begins = not text[: first.start].strip()
    return first.title, text[first.end :] if begins else text


@dataclass(frozen=True, slots=True)
class NoteSearch:
    """Notes as they are in an open index."""

    retriever: Retriever

    def retrieve(
        self,
        text: str,
        *,
        limit: int = 8,
        budget: int = 2_000,
        context: Context | None = None,
        explain: bool = False,
    ) -> Mapping[str, Any]:
        """Answer as ``rag:retrieve`` does; ``explain`` adds what each leg says of each snippet."""
        found = self.retriever.find(text, context)
        answer = self.retriever.response(found, limit=limit, budget=budget).to_json()
        if explain:
            shown = {item["sourceRef"] for item in answer["items"]}
            ranked = [one for one in found.ranked if one.chunk.ref in shown]
            answer["explain"] = {one.chunk.ref: _legs(found, one) for one in ranked}
        return answer

    def tokens(self, text: str, context: Context | None = None) -> tuple[int, ...]:
        """Return what each snippet that is found takes of a budget, the best first."""
        return tuple(one.tokens for one in self.retriever.find(text, context).ranked)


def follow(arm: Writing, root: Path, place: Path) -> Live[NoteSearch]:
    """Follow a folder of notes with the settings of an arm of this stack."""
    embedder = arm.embedder()

    @contextmanager
    def opened(db: sqlite3.Connection) -> Iterator[NoteSearch]:
        given = arm.settings
        store = Store(db, given.title_weight, given.snippet_tokens)
        cache = VectorCache(given.cache_entries, given.cache_bytes)
        local = LocalRerank(embedder, given.rerank, cache, given.fts_share)
        recall = replace(arm.recall(), like=True)
        yield NoteSearch(Retriever(store, recall, local, given.top))

    return Live(root, place, Notes(arm.settings), opened)


def answer(search: NoteSearch, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer what a command or a tool was given."""
    return search.retrieve(
        given["queryText"],
        limit=given["limit"],
        budget=given["budget"],
        context=context_of(given),
        explain=given["explain"],
    )


def context_of(given: Mapping[str, Any]) -> Context | None:
    """Read what the writer is doing; None where nothing is said of it."""
    said = [given[name] for name in ("title", "selection", "project")]
    return Context(*said) if any(said) else None


def _legs(found: Retrieved, one: Candidate) -> Mapping[str, Any]:
    """Return of a snippet where each query had it, its share of BM25, and its cosine."""
    ranks = {
        planned.query: rows.index(one.chunk.rowid) + 1 if one.chunk.rowid in rows else None
        for planned, rows in zip(found.planned, found.lists, strict=False)
    }
    cosines = dict(zip(found.outcome.order, found.ranked, strict=False))
    at = next((at for at, held in cosines.items() if held is one), None)
    cosine = found.outcome.cosines[at] if at is not None and found.outcome.cosines else None
    return {"ranks": ranks, "bm25": one.words, "cosine": cosine, "fallback": found.fallback}
