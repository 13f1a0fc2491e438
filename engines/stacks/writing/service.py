"""Search in a folder of notes: ``rag:retrieve`` over an index that follows the folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engines.kept.live import Live
from engines.stacks.writing.arm import Writing
from engines.stacks.writing.cache import VectorCache
from engines.stacks.writing.kept import Notes
from engines.stacks.writing.planner import Context
from engines.stacks.writing.rerank import LocalRerank
from engines.stacks.writing.retrieve import Candidate, Retrieved, Retriever
from engines.stacks.writing.store import Store

LIMIT, BUDGET = 8, 2_000
"""Snippets of an answer, and tokens of them together, where none are named."""


@dataclass(frozen=True, slots=True)
class NoteSearch:
    """Notes as they are in an open index."""

    retriever: Retriever

    def retrieve(
        self,
        text: str,
        *,
        limit: int = LIMIT,
        budget: int = BUDGET,
        context: Context | None = None,
        explain: bool = False,
    ) -> Mapping[str, Any]:
        """Answer as ``rag:retrieve`` does; ``explain`` adds what each leg says of each snippet.

        Raises:
            InvalidArgument: a limit or a budget is out of bounds.
        """
        found = self.retriever.find(text, context)
        answer = self.retriever.response(found, limit=limit, budget=budget).to_json()
        if explain:
            shown = {item["sourceRef"] for item in answer["items"]}
            ranked = [one for one in found.ranked if one.chunk.ref in shown]
            answer["explain"] = {one.chunk.ref: _legs(found, one) for one in ranked}
        return answer

    def tokens(self, text: str, context: Context | None = None) -> tuple[int, ...]:
        """Give what each snippet that is found takes of a budget, the best first."""
        return tuple(one.tokens for one in self.retriever.find(text, context).ranked)


def notes(arm: Writing, root: Path, place: Path) -> Live[NoteSearch]:
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


def _legs(found: Retrieved, one: Candidate) -> Mapping[str, Any]:
    """Say of a snippet where each query had it, its share of BM25, and its cosine."""
    ranks = {
        planned.query: rows.index(one.chunk.rowid) + 1 if one.chunk.rowid in rows else None
        for planned, rows in zip(found.planned, found.lists, strict=False)
    }
    cosines = dict(zip(found.outcome.order, found.ranked, strict=False))
    at = next((at for at, held in cosines.items() if held is one), None)
    cosine = found.outcome.cosines[at] if at is not None and found.outcome.cosines else None
    return {"ranks": ranks, "bm25": one.words, "cosine": cosine, "fallback": found.fallback}
