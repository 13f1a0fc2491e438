"""Code search as a stack under test, and in a folder of code that is kept searchable."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from sqlite3 import Connection
from typing import Any, ClassVar

from harness.core.engine import Answer, Engine, Explained, Hit, Manifest
from harness.core.errors import IndexNotReady, ModelNotReady, UnknownName
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.kept import cached
from harness_engines.kept import index as tables
from harness_engines.kept.index import FileReader
from harness_engines.lexical.grammar import exact_clauses, note_nothing
from harness_engines.lexical.query import LIKE, Like
from harness_engines.lexical.terms import Occur
from harness_engines.stacks.code import ranking, search, units
from harness_engines.stacks.code.ranking import CodeSettings
from harness_engines.stacks.code.reading import languages
from harness_engines.stacks.code.reading.documents import (
    BIGGEST,
    READ,
    embedded,
    is_code,
    module_of,
    of_file,
)
from harness_engines.stacks.code.reading.python import decoded
from harness_engines.stacks.code.search import Catalog, CodeHits, CodeSearch
from harness_engines.vector.embedder import Embedder, embedder_of, identity_of_embedder

REVISION = 5
"""Raised with every change of code that moves a ranking."""


@dataclass(frozen=True, slots=True)
class Code(FileEngine["CodeSearcher"]):
    ENGINE: ClassVar = "code"
    settings: CodeSettings
    cache: Path

    def embedder(self) -> Embedder | None:
        """Open the embedder that the settings name; None where they name none."""
        named = self.settings.embedder
        return embedder_of(named, self.settings.max_tokens) if named else None

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        named = self.settings.embedder
        return self.read_by(
            identity_of_embedder(named, self.settings.max_tokens) if named else "no vectors"
        )

    def read_by(self, vectors: str) -> str:
        """Describe what answers depend on beside settings, documents and vectors."""
        by = f"sqlite {sqlite3.sqlite_version}" if self._is_in_sqlite else units.WORDS_BY
        read_by = languages.identity(), ranking.BY
        return ", ".join((f"code {REVISION}", by, vectors, *read_by))

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        in_order = sorted(documents, key=lambda document: document.doc_id.encode())
        language, embedder = self.settings.language, self.embedder()
        with tables.built(index, search.TABLES) as db:
            terms = [
                search.put(db, "", one, language, with_words=self._is_in_sqlite) for one in in_order
            ]
            db.execute("INSERT INTO search (search) VALUES ('optimize')")
            if embedder is not None:
                texts = [embedded(document) for document in in_order]
                cached.complete(db, [cached.vectors_of(embedder, self.cache)], texts)
        if not self._is_in_sqlite:
            units.build_tantivy(index, terms, self.settings.fields.model_dump())

    @contextmanager
    def load(self, index: Path, made: Manifest) -> "Iterator[CodeSearcher]":
        embedder, settings = self.embedder(), self.settings
        with tables.opened(index) as db:
            catalog = Catalog(db)
            opened: units.WordsBackend = units.StoredWords(
                db, catalog.ids, settings.fields.model_dump()
            )
            if not self._is_in_sqlite:
                with contract.reading(index, OSError, ValueError):
                    found = units.open_tantivy(index)
                contract.check_count(index, made, int(found.searcher.num_docs))
                opened = found
            contract.check_count(index, made, len(catalog.entries))
            dense = catalog.dense(embedder) if embedder is not None else None
            if embedder is not None and dense is None:
                raise IndexNotReady(
                    f"{index}: vectors are missing. Build it again: harness stage index"
                )
            if settings.graph is not None or settings.context is not None:
                _ = catalog.graph  # so that no query waits for it
            code = CodeSearch(catalog, opened, dense, catalog.signatures(), settings)
            yield CodeSearcher(code, made)

    @property
    def _is_in_sqlite(self) -> bool:
        return self.settings.backend == "sqlite"


@dataclass(frozen=True, slots=True)
class CodeSearcher:
    code: CodeSearch
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show hits for a text and its filters; context is left out, since no one asked for it."""
        found = self.code.search(text, k, units.parse(params))
        doc_ids = self.code.catalog.doc_ids
        hits = tuple(Hit(doc_ids[hit.row], hit.score, hit.score) for hit in found.hits)
        note, language = "", self.code.settings.language
        if not hits and text.strip() and not units.wanted(exact_clauses(text), language):
            note = note_nothing(text, has_stop_words=language == "english")
        return Answer(hits, self.manifest.fingerprint, note)

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return ``scoreBreakdown`` of each hit."""
        found = self.code.search(text, k, units.parse(params))
        why = {self.code.catalog.doc_ids[hit.row]: hit.why.as_dict() for hit in found.hits}
        return Explained({"mode": self.code.settings.mode}, why)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Code(CodeSettings.model_validate(settings), cache)


VERSION = "8"
PACKAGE = "__init__.py"


def reader(arm: Code, root: Path, place: Path) -> FileReader:  # noqa: ARG001  all is in the index
    """Read files of code, prose and records; what is kept of one are its units."""
    language, weights = arm.settings.language, arm.settings.fields.model_dump()
    embedder, missing = None, ""
    try:
        embedder = arm.embedder()
    except ModelNotReady as exc:
        missing = f"MODEL_NOT_READY: {exc}"

    def put(db: Connection, path: str, data: bytes) -> str:
        found = list(of_file(path, _module(root, path), data))
        inside = {"", *(line.strip() for one in found for line in one.text.splitlines())}
        lines = enumerate(decoded(data).split("\n"), start=1) if is_code(path) else ()
        outside = ((path, at, line) for at, line in lines if line.strip() not in inside)
        db.executemany("INSERT INTO outside VALUES (?, ?, ?)", outside)
        for document in found:
            search.put(db, path, document, language, with_words=True)
        return ""

    def complete(db: Connection) -> None:
        if embedder is not None:
            texts = [row[0] for row in db.execute("SELECT text FROM unit")]
            cached.complete(db, [cached.vectors_of(embedder, arm.cache)], texts)

    def opened(db: Connection) -> CodeFolderSearch:
        catalog, why = Catalog(db), missing
        dense = catalog.dense(embedder) if embedder is not None else None
        if embedder is not None and dense is None:
            why = "vectors are not made yet; index the folder to the end"
        words = units.StoredWords(db, catalog.ids, weights)
        settings = arm.settings.model_copy(update={"backend": "sqlite"})
        code = CodeSearch(catalog, words, dense, catalog.signatures(), settings, named_first=True)
        return CodeFolderSearch(code, why)

    return FileReader(
        suffixes=frozenset(f".{ext}" for ext in READ),
        biggest=BIGGEST,
        identity=f"code {VERSION} {arm.read_by('no vectors')} {language}",
        models=embedder.identity if embedder else "",
        tables=search.TABLES,
        put=put,
        drop=search.drop,
        complete=complete,
        opened=opened,
    )


def _module(root: Path, path: str) -> str:
    """Name a module as it is imported: from the topmost folder that is a package."""
    folders = PurePosixPath(path).parent.parts
    within = [root.joinpath(*folders[: at + 1], PACKAGE).is_file() for at in range(len(folders))]
    parts = module_of(f"/{path}").removeprefix(".").split(".")
    if not all(within):
        return ".".join(parts[len(within) - within[::-1].index(False) :])
    folder = root.resolve()
    while (folder / PACKAGE).is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


PREFIX = 300
"""Characters of a unit that an answer shows."""
GRAPH = ranking.GraphSettings(degree=0.05, proximity=0.1, seedSelection="top1")
"""As the arm code-graph has it."""
LISTED = ("lang", "type")
"""Filters with few values: one that no unit has is a slip, and is refused with those there are."""
OUTSIDE = 3
"""Lines in no unit in an answer at most."""
NEAREST = "no unit contains a word of the query; these are the nearest by meaning"


@dataclass(frozen=True, slots=True)
class CodeFolderSearch:
    """Code as it is in an open index."""

    code: CodeSearch
    missing: str
    """Why vectors do not take part; empty where they do, or none are wanted."""

    def answer(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer with hits, each with its place, its first lines and its properties."""
        text, top, catalog = given["query"], given["top"], self.code.catalog
        if given["mode"] not in {"", *units.Mode}:
            raise UnknownName("mode", given["mode"], list(units.Mode))
        mode = units.Mode(given["mode"] or self.code.settings.mode)
        filters = units.parse({
            name: given[name] for name in units.NAMES if given[name] is not None
        })
        self._check(filters)
        changed: dict[str, Any] = {"context": None}
        if given["context"]:
            changed["context"] = ranking.ContextSettings(per_hit=given["context"], total=20)
        if given["graph"]:
            changed["graph"] = GRAPH
        code = replace(self.code, settings=self.code.settings.model_copy(update=changed))
        found = code.search(text, top, filters, mode)
        like, by, nearest = Like.of(text), "", ""
        if text.strip() and not (found.hits and self._has_a_word(text)):
            last = self._containing(like, top, filters, mode)
            nearest = NEAREST if found.hits and like.wanted and not last.hits else ""
            found, by = (last, LIKE) if last.hits or not found.hits else (found, "")
        hits = [self._shown(one.row, one.score) for one in found.hits]
        if given["explain"]:
            whys = (one.why.as_dict() for one in found.hits)
            hits = [hit | {"scoreBreakdown": why} for hit, why in zip(hits, whys, strict=True)]
        context = [
            self._shown(one.row, 0.0)
            | {"reason": one.reason.name.lower(), "of": catalog.doc_ids[one.of]}
            for one in found.context
        ]
        is_there = any(like.has(catalog.text(hit.row)) for hit in found.hits)
        if hits and len(like.wanted) == 1 and not is_there:
            nearest = nearest or "none of these contains the text as it was typed"
        if mode in {units.Mode.CODE, units.Mode.MIXED} and not filters and not is_there:
            lines = (_line(*row) for row in catalog.outside() if like.has(row[2]))
            if outside := list(islice(lines, min(top, OUTSIDE))):
                hits = [*hits[: top - len(outside)], *outside]
                by, nearest = by or ("" if found.hits else LIKE), ""
        notes = {"missing": self.missing, "fallback": by if hits else "", "nearest": nearest}
        return {
            "query": text,
            "mode": mode.value,
            "hits": hits,
            "context": context,
            "truncated": found.truncated,
            **{key: value for key, value in notes.items() if value},
        }

    def _check(self, filters: units.Filters) -> None:
        """Refuse a type or a language that no unit has; a folder without units answers nothing."""
        for name in (one for one in LISTED if one in filters):
            value, known = filters[name], self.code.catalog.values(name)
            if known and units.folded(value, name) not in known:
                raise units.InvalidFilter(
                    f"{name}: is {value!r}, which nothing in this folder has;"
                    f" name {', '.join(known)}"
                )

    def _has_a_word(self, text: str) -> bool:
        """Return whether a unit has any word of a query, or the query only refuses some."""
        clauses = exact_clauses(text)
        asked = [one for one in clauses if one.occur is not Occur.NOT]
        if clauses and not asked:
            return True
        wanted_words = units.wanted(asked, self.code.settings.language)
        return bool(wanted_words and self.code.words.search(wanted_words, 1, None))

    def _containing(
        self, like: Like, top: int, filters: units.Filters, mode: units.Mode
    ) -> CodeHits:
        """List units that contain what was typed, in the order of their ids."""
        catalog, why = self.code.catalog, ranking.ScoreBreakdown({"type": LIKE, "score": 0.0})
        allowed = catalog.allowed(mode, filters)
        rows = range(len(catalog)) if allowed is None else allowed.tolist()
        has = (row for row in rows if like.has(catalog.text(row)))
        return CodeHits(tuple(ranking.RankedUnit(row, 0.0, why) for row in islice(has, top)))

    def _shown(self, row: int, score: float) -> dict[str, Any]:
        """Show a unit with its place, its first lines and its properties."""
        unit = self.code.catalog.entry(row).unit
        return {
            "id": unit.doc_id,
            "path": unit.path,
            "lines": unit.lines,
            "type": unit.facts.type,
            "name": unit.facts.full or unit.texts.name,
            "signature": unit.facts.signature,
            "mode": unit.mode.value,
            "score": score,
            "prefix": self.code.catalog.text(row)[:PREFIX],
        }


def _line(path: str, line: int, text: str) -> dict[str, Any]:
    """Show a line that is in no unit as a hit."""
    return {
        "id": f"{path}:{line}", "path": path, "lines": f"{line}-{line}", "name": "",
        "signature": "", "type": "line", "mode": units.Mode.CODE.value, "score": 0.0,
        "prefix": text[:PREFIX],
    }  # fmt: skip
