"""A folder of code, kept searchable, and search in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from engines.kept import cached
from engines.kept.cached import vectors_of
from engines.kept.index import Live
from engines.lexical.grammar import exact_clauses
from engines.lexical.query import LIKE, Like
from engines.lexical.terms import Occur
from engines.stacks.code import store
from engines.stacks.code.arm import Code
from engines.stacks.code.ranking import (
    Context,
    Graph,
    GraphSettings,
    ScoreBreakdown,
)
from engines.stacks.code.reading.documents import (
    BIGGEST,
    READ,
    is_code,
    module_of,
    of_file,
)
from engines.stacks.code.reading.python import decoded
from engines.stacks.code.search import CodeHit, CodeHits, CodeSearch, Ranker
from engines.stacks.code.store import Entries, StoredWords
from engines.stacks.code.units import (
    NAMES,
    Catalog,
    Filters,
    InvalidFilter,
    Mode,
    folded,
    parse,
)
from engines.stacks.code.words import wanted
from engines.vector.embedder import Embedder
from harness.core.errors import BadFile, ModelNotReady, UnknownName
from harness.core.reading import Malformed

VERSION = "4"
PACKAGE = "__init__.py"


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """Reads files of code, prose and records; what is kept of one are its units."""

    arm: Code
    root: Path
    embedder: Embedder | None

    @property
    def suffixes(self) -> frozenset[str]:
        return frozenset(f".{ext}" for ext in READ)

    @property
    def biggest(self) -> int:
        return BIGGEST

    @property
    def identity(self) -> str:
        return f"code {VERSION} {self.arm.read_by('no vectors')} {self.arm.settings.language}"

    @property
    def models(self) -> str:
        return self.embedder.identity if self.embedder else ""

    @property
    def tables(self) -> str:
        return store.TABLES

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> str:
        try:
            found = list(of_file(path, self._module(path), data))
        except Malformed as exc:
            what, _, hint = str(exc).partition(". ")
            raise BadFile(path, what, hint or "Save it as UTF-8") from exc
        inside = {"", *(line.strip() for one in found for line in one.text.splitlines())}
        lines = enumerate(decoded(data).split("\n"), start=1) if is_code(path) else ()
        outside = ((path, at, line) for at, line in lines if line.strip() not in inside)
        db.executemany("INSERT INTO outside VALUES (?, ?, ?)", outside)
        for document in found:
            store.put(db, path, document, self.arm.settings.language, with_words=True)
        return ""

    def drop(self, db: sqlite3.Connection, path: str) -> None:
        store.drop(db, path)
        db.execute("DELETE FROM outside WHERE path = ?", (path,))

    def complete(self, db: sqlite3.Connection) -> None:
        if self.embedder is not None:
            texts = [row[0] for row in db.execute("SELECT text FROM unit")]
            cached.complete(db, [vectors_of(self.embedder, self.arm.cache)], texts)

    def _module(self, path: str) -> str:
        """Name a module as it is imported: from the topmost folder that is a package."""
        name = module_of(f"/{path}").removeprefix(".")
        folders = PurePosixPath(path).parent.parts
        above = self._packages_above()
        outside = [at for at in range(len(folders)) if not self._is_package(folders[: at + 1])]
        if outside:
            return ".".join(name.split(".")[outside[-1] + 1 :])
        return ".".join([*above, name]) if folders or above else name

    def _is_package(self, folders: Sequence[str]) -> bool:
        return self.root.joinpath(*folders, PACKAGE).is_file()

    def _packages_above(self) -> tuple[str, ...]:
        """Name the packages that the folder itself is in, from the topmost."""
        found: list[str] = []
        folder = self.root.resolve()
        while (folder / PACKAGE).is_file():
            found.insert(0, folder.name)
            folder = folder.parent
        return tuple(found)


TOP = 10
PREFIX = 300
"""Characters of a unit that an answer shows."""
GRAPH = GraphSettings(degree=0.05, proximity=0.1, seedSelection="top1")
"""As the arm code-graph has it."""
LISTED = frozenset({"type", "lang"})
"""Filters with few values: one that no unit has is a slip, and is refused with those there are."""
OUTSIDE = 3
"""Lines in no unit in an answer at most."""
NOT_AS_TYPED = "none of these contains the text as it was typed"
NEAREST = "no unit contains a word of the query; these are the nearest by meaning"
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
        """Answer with hits, each with its place, its first lines and its properties."""
        self._check(wish.filters)
        given = self.ranker.settings
        context = Context(per_hit=wish.context, total=TOTAL) if wish.context else None
        changed = {"context": context, "graph": GRAPH if wish.graph else given.graph}
        settings = given.model_copy(update=changed)
        wants_graph = context is not None or settings.graph is not None
        graph = Graph([one.unit for one in self.entries]) if wants_graph else None
        found = CodeSearch(self.ranker, graph, settings, self.entries.named).search(
            text, wish.top, wish.filters, wish.mode
        )
        like, by, nearest = Like.of(text), "", ""
        if text.strip() and not (found.hits and self._has_a_word(text)):
            last = self._containing(like, wish)
            nearest = NEAREST if found.hits and like.wanted and not last.hits else ""
            found, by = (last, LIKE) if last.hits or not found.hits else (found, "")
        hits = [self._shown(hit, explain=wish.explain) for hit in found.hits]
        is_there = any(like.has(self._text(hit["id"])) for hit in hits)
        outside = [] if is_there else self._outside(like, wish)
        if hits and len(like.wanted) == 1 and not is_there:
            nearest = nearest or NOT_AS_TYPED
        hits = [*hits[: wish.top - len(outside)], *outside]
        if outside:
            by, nearest = by or ("" if found.hits else LIKE), ""
        notes = {"missing": self.missing, "fallback": by if hits else "", "nearest": nearest}
        return {
            "query": text,
            "mode": (wish.mode or Mode(given.mode)).value,
            "hits": hits,
            "context": [self._shown(hit, explain=False) for hit in found.context],
            "truncated": found.truncated,
            **{key: value for key, value in notes.items() if value},
        }

    def _check(self, filters: Filters) -> None:
        """Refuse a type or a language that no unit has; a folder without units answers nothing."""
        for name, value in filters.given().items():
            if name not in LISTED:
                continue
            known = self.ranker.catalog.values(name)
            if known and folded(value, name) not in known:
                raise InvalidFilter(
                    f"{name}: is {value!r}, which nothing in this folder has;"
                    f" name {', '.join(known)}"
                )

    def _has_a_word(self, text: str) -> bool:
        """Return whether a unit has any word of a query, or the query only refuses some."""
        clauses = exact_clauses(text)
        asked = [one for one in clauses if one.occur is not Occur.NOT]
        if clauses and not asked:
            return True
        wanted_words = wanted(asked, self.ranker.settings.language)
        return bool(wanted_words and self.ranker.words.search(wanted_words, 1, None))

    def _outside(self, like: Like, wish: Wish) -> list[Mapping[str, Any]]:
        """List lines of code in no unit that contain what was typed."""
        mode = wish.mode or Mode(self.ranker.settings.mode)
        if wish.filters.given() or mode not in {Mode.CODE, Mode.MIXED}:
            return []
        has = (row for row in self.entries.outside() if like.has(row[2]))
        return [_line(*row) for row, _ in zip(has, range(min(wish.top, OUTSIDE)))]  # noqa: B905  the cap ends it

    def _containing(self, like: Like, wish: Wish) -> CodeHits:
        """List units that contain what was typed, in the order of their ids."""
        mode = wish.mode or Mode(self.ranker.settings.mode)
        allowed = self.ranker.catalog.allowed(mode, wish.filters)
        rows = np.arange(len(self.entries)) if allowed is None else allowed
        why = ScoreBreakdown({"type": LIKE, "score": 0.0})
        has = (row for row in rows.tolist() if like.has(self.entries.text(row)))
        return CodeHits(
            tuple(CodeHit(self.entries[row].unit, 0.0, why) for row, _ in zip(has, range(wish.top)))  # noqa: B905  the cap ends it
        )

    def _text(self, doc_id: str) -> str:
        return self.entries.text(self.ranker.catalog.doc_ids.index(doc_id))

    def _shown(self, hit: CodeHit, *, explain: bool) -> Mapping[str, Any]:
        unit, facts = hit.unit, hit.unit.facts
        text = self._text(unit.doc_id)
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


def answer(search: FolderSearch, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer what a command or a tool was given."""
    mode = given["mode"]
    if mode not in {"", *Mode}:
        raise UnknownName("mode", mode, list(Mode))
    filters = parse({name: given[name] for name in NAMES if given[name] is not None})
    shown = given["context"], given["graph"], given["explain"]
    return search.search(
        given["query"], Wish(given["top"], filters, Mode(mode) if mode else None, *shown)
    )


def _line(path: str, line: int, text: str) -> Mapping[str, Any]:
    """Show a line that is in no unit as a hit."""
    shown: dict[str, Any] = {"id": f"{path}:{line}", "path": path, "lines": f"{line}-{line}"}
    shown |= dict.fromkeys(("name", "signature"), "")
    return shown | {
        "type": "line", "mode": Mode.CODE.value, "score": 0.0, "prefix": text[:PREFIX],
    }  # fmt: skip


def follow(arm: Code, root: Path, place: Path) -> Live[FolderSearch]:
    """Follow a folder of code with the settings of an arm of this stack."""
    embedder, missing = _embedder(arm)

    @contextmanager
    def opened(db: sqlite3.Connection) -> Iterator[FolderSearch]:
        entries = Entries(db)
        catalog = Catalog(entries, entries.modes, entries.doc_ids)
        dense, why = None, missing
        if embedder is not None and (dense := entries.dense(embedder, arm.cache)) is None:
            why = "vectors are not made yet; index the folder to the end"
        weights = arm.settings.fields.model_dump()
        words = StoredWords(db, entries.ids, "doc_id", weights)
        ranker = Ranker(catalog, words, dense, entries.signatures(), arm.settings, "sqlite")
        yield FolderSearch(ranker, entries, why)

    return Live(root, place, CodeFiles(arm, root, embedder), opened)


def _embedder(arm: Code) -> tuple[Embedder | None, str]:
    try:
        return arm.embedder(), ""
    except ModelNotReady as exc:
        return None, f"MODEL_NOT_READY: {exc}"
