"""Search in a folder of code, over an index that follows it: filters, modes, reasons, context."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engines.kept import vectors
from engines.kept.live import Live
from engines.lexical.like import LIKE, Like
from engines.stacks.code.arm import Code
from engines.stacks.code.catalog import Catalog
from engines.stacks.code.config import Context
from engines.stacks.code.config import Graph as GraphSettings
from engines.stacks.code.explain import ScoreBreakdown
from engines.stacks.code.filters import Filters, InvalidFilter, folded
from engines.stacks.code.graph import Graph
from engines.stacks.code.kept import CodeFiles, Entries, KeptWords
from engines.stacks.code.near_duplicates import PERMUTATIONS, Signatures
from engines.stacks.code.ranked import Dense, Ranker
from engines.stacks.code.search import CodeHit, CodeHits, CodeSearch
from engines.stacks.code.unit import FIELDS, Mode
from engines.vector.embedder import Embedder
from harness.core.errors import ModelNotReady

TOP = 10
PREFIX = 300
"""Characters of a unit that an answer shows."""
GRAPH = GraphSettings(degree=0.05, proximity=0.1, seedSelection="top1")
"""As the arm code-graph has it."""
LISTED = frozenset({"type", "lang"})
"""Filters with few values: one that no unit has is a slip, and is refused with those there are."""
TOTAL = 20
"""Units of context in an answer at most."""


class Wish(NamedTuple):
    """What is searched for, beside the text."""

    top: int = TOP
    filters: Filters = Filters()
    mode: Mode | None = None
    context: int = 0
    """Units shown beside each hit, for its calls, uses and imports."""
    graph: bool = False
    """Whether the hits are reordered by who calls whom."""
    explain: bool = False


@dataclass(frozen=True, slots=True)
class FolderSearch:
    """Code as it is in an open index."""

    ranker: Ranker
    entries: Entries
    missing: str
    """Why vectors do not take part; empty where they do, or none are wanted."""

    def search(self, text: str, wish: Wish) -> Mapping[str, Any]:
        """Answer with hits, each with its place, its first lines and its properties.

        Raises:
            InvalidFilter: a filter cannot be meant, or no unit has that type or language.
        """
        self._check(wish.filters)
        given = self.ranker.settings
        context = Context(per_hit=wish.context, total=TOTAL) if wish.context else None
        changed = {"context": context, "graph": GRAPH if wish.graph else given.graph}
        settings = given.model_copy(update=changed)
        wants_graph = context is not None or settings.graph is not None
        graph = Graph([one.unit for one in self.entries]) if wants_graph else None
        found = CodeSearch(self.ranker, graph, settings).search(
            text, wish.top, wish.filters, wish.mode
        )
        by = ""
        if not found.hits and text.strip():
            found, by = self._containing(text, wish), LIKE
        notes = {"missing": self.missing, "fallback": by if found.hits else ""}
        return {
            "query": text,
            "mode": (wish.mode or Mode(given.mode)).value,
            "hits": [self._shown(hit, explain=wish.explain) for hit in found.hits],
            "context": [self._shown(hit, explain=False) for hit in found.context],
            "truncated": found.truncated,
            **{key: value for key, value in notes.items() if value},
        }

    def _check(self, filters: Filters) -> None:
        """Refuse a type or a language that no unit has; a folder without units answers nothing.

        Raises:
            InvalidFilter: as said, with those that units have.
        """
        for name, value in filters.given().items():
            if name not in LISTED:
                continue
            known = self.ranker.catalog.values(name)
            if known and folded(value, name) not in known:
                raise InvalidFilter(
                    f"{name}: is {value!r}, which nothing in this folder has;"
                    f" name {', '.join(known)}"
                )

    def _containing(self, text: str, wish: Wish) -> CodeHits:
        """List units that contain what was typed, in the order of their ids."""
        like = Like.of(text)
        mode = wish.mode or Mode(self.ranker.settings.mode)
        allowed = self.ranker.catalog.allowed(mode, wish.filters)
        rows = np.arange(len(self.entries)) if allowed is None else allowed
        why = ScoreBreakdown({"type": LIKE, "score": 0.0})
        has = (row for row in rows.tolist() if like.has(self.entries.text(row)))
        return CodeHits(
            tuple(CodeHit(self.entries[row].unit, 0.0, why) for row, _ in zip(has, range(wish.top)))  # noqa: B905  the cap ends it
        )

    def _shown(self, hit: CodeHit, *, explain: bool) -> Mapping[str, Any]:
        unit, facts = hit.unit, hit.unit.facts
        text = self.entries.text(self.ranker.catalog.doc_ids.index(unit.doc_id))
        shown: dict[str, Any] = {
            "id": unit.doc_id,
            "path": unit.path,
            "lines": unit.lines,
            "type": facts.type,
            "name": facts.full or unit.texts.name,
            "signature": facts.signature,
            "mode": unit.mode.value,
            "score": hit.score,
            "prefix": text[:PREFIX],
        }
        if hit.beside is not None:
            of = self.entries[hit.beside.of].unit.doc_id
            shown |= {"reason": hit.beside.reason.name.lower(), "of": of}
        if explain and hit.why is not None:
            shown["scoreBreakdown"] = hit.why.as_dict()
        return shown


def code(arm: Code, root: Path, place: Path) -> Live[FolderSearch]:
    """Follow a folder of code with the settings of an arm of this stack."""
    embedder, missing = _embedder(arm)

    @contextmanager
    def opened(db: sqlite3.Connection) -> Iterator[FolderSearch]:
        entries = Entries(db)
        catalog = Catalog(entries, entries.modes, entries.doc_ids)
        dense, why = _dense(db, entries, embedder, missing)
        weights = tuple(int(arm.settings.fields.model_dump()[field]) for field in FIELDS)
        words = KeptWords(db, entries.ids, weights)
        ranker = Ranker(catalog, words, dense, _signatures(db, entries), arm.settings, "sqlite")
        yield FolderSearch(ranker, entries, why)

    return Live(root, place, CodeFiles(arm, root, embedder), opened)


def _embedder(arm: Code) -> tuple[Embedder | None, str]:
    try:
        return arm.embedder(), ""
    except ModelNotReady as exc:
        return None, f"MODEL_NOT_READY: {exc}"


def _dense(
    db: sqlite3.Connection, entries: Entries, embedder: Embedder | None, missing: str
) -> tuple[Dense | None, str]:
    if embedder is None:
        return None, missing
    texts = dict(db.execute("SELECT id, text FROM unit"))
    made = vectors.matrix(db, embedder, [texts[rowid] for rowid in entries.ids.tolist()])
    if made is None:
        return None, "vectors are not made yet; index the folder to the end"
    return Dense(embedder, made), ""


def _signatures(db: sqlite3.Connection, entries: Entries) -> Signatures:
    held = dict(db.execute("SELECT id, minhash FROM unit"))
    whole = b"".join(held[rowid] for rowid in entries.ids.tolist())
    return np.frombuffer(whole, dtype=np.uint32).reshape(-1, PERMUTATIONS + 1)
