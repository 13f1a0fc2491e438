"""Code search: units in the tables of an index, their filters, ranking by mode, and reasons."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.records import Document
from harness_engines.kept import cached
from harness_engines.kept.cached import Vectors
from harness_engines.lexical.grammar import held, leaves, mask, parse, positive
from harness_engines.lexical.tantivy import Language
from harness_engines.lexical.terms import Clause, Occur, normalise
from harness_engines.ranking import RRF_TIE_DIGITS
from harness_engines.stacks.code import ranking
from harness_engines.stacks.code.reading.documents import embedded, understand
from harness_engines.stacks.code.units import (
    FIELDS,
    PATTERNS,
    WHOLE,
    Filters,
    IndexedUnit,
    Mode,
    Rows,
    ScoredUnit,
    Unit,
    UnitTexts,
    WordsBackend,
    entry_of,
    folded,
    indexed,
    parts,
    pattern,
    rows_by,
    terms_of,
    values,
    wanted,
    words,
    written,
)
from harness_engines.vector.embedder import Embedder

COLUMNS = ", ".join(FIELDS)
MARKS = ", ".join("?" * len(FIELDS))
TABLES = f"""
CREATE TABLE unit (id INTEGER PRIMARY KEY, path TEXT NOT NULL, doc_id TEXT UNIQUE NOT NULL,
  mode TEXT NOT NULL, symbol TEXT NOT NULL, entry TEXT NOT NULL, text TEXT NOT NULL,
  minhash BLOB NOT NULL);
CREATE INDEX unit_of_symbol ON unit (symbol);
CREATE INDEX unit_of_path ON unit (path);
CREATE TABLE outside (path TEXT NOT NULL, line INTEGER NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (path, line)) WITHOUT ROWID;
CREATE VIRTUAL TABLE search USING fts5({COLUMNS}, content='',
  tokenize='unicode61 remove_diacritics 0');
{cached.TABLE}
"""
GONE = f"INSERT INTO search (search, rowid, {COLUMNS}) VALUES ('delete', ?, {MARKS})"  # noqa: S608  our own names
TERMS = f"INSERT INTO search (rowid, {COLUMNS}) VALUES (?, {MARKS})"  # noqa: S608  as above
UNIT = "INSERT INTO unit (path, doc_id, mode, symbol, entry, text, minhash)"
NOTHING: Rows = np.zeros(0, dtype=np.int64)


def put(
    db: sqlite3.Connection, path: str, document: Document, language: Language, *, with_words: bool
) -> UnitTexts:
    """Take in the unit of a document, and its words unless another engine has them; return them."""
    unit, text = understand(document), embedded(document)
    entry = IndexedUnit(unit, UnitTexts(*(indexed(one, language) for one in unit.texts)))
    signed = ranking.row(words(text, language)[0])
    about = (path, document.doc_id, unit.mode.value, unit.facts.symbol)
    row = (*about, written(entry), text, signed.tobytes())
    made = db.execute(f"{UNIT} VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    if with_words:
        db.execute(TERMS, (made.lastrowid, *entry.terms))
    return entry.terms


def drop(db: sqlite3.Connection, path: str) -> None:
    """Drop the units of a file, and its lines in none."""
    for rowid, entry in db.execute("SELECT id, entry FROM unit WHERE path = ?", (path,)):
        db.execute(GONE, (rowid, *entry_of(entry).terms))
    db.execute("DELETE FROM unit WHERE path = ?", (path,))
    db.execute("DELETE FROM outside WHERE path = ?", (path,))


class Catalog:
    """Units of an open index in byte order of their documents' ids.

    A unit's row is its place in that order, everywhere. Units are read one by one until all of
    them are needed, for a filter or a graph.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT id, doc_id, mode FROM unit").fetchall()
        rows.sort(key=lambda row: row[1].encode())
        self._db = db
        self.ids = np.array([row[0] for row in rows], dtype=np.int64)
        """Key of each row in the tables."""
        self.doc_ids = [row[1] for row in rows]
        self._by_mode = rows_by([row[2]] for row in rows)
        self._one = lru_cache(4_096)(lambda row: entry_of(self._cell("entry", row)))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def entries(self) -> list[IndexedUnit]:
        """All units."""
        return [entry_of(entry) for entry in self._column("entry")]

    @property
    def units(self) -> list[Unit]:
        """All units, without what is indexed of them."""
        return [entry.unit for entry in self.entries]

    def entry(self, row: int) -> IndexedUnit:
        """Read a unit."""
        return self.entries[row] if "entries" in self.__dict__ else self._one(row)

    def text(self, row: int) -> str:
        """Return a unit's text as it stands in its file."""
        return self._cell("text", row)

    @cached_property
    def graph(self) -> ranking.UnitGraph:
        """Which units belong together."""
        return ranking.UnitGraph(self.units)

    def named(self, name: str) -> list[int]:
        """List rows, ascending, that define what has a name: its own, or one with dots."""
        found = self._db.execute(
            "SELECT id FROM unit WHERE symbol IN (?, ?)", (name, name.rpartition(".")[2])
        ).fetchall()
        rows = np.flatnonzero(np.isin(self.ids, [row[0] for row in found])).tolist()
        facts = ((row, self.entry(row).unit.facts) for row in rows)
        return [row for row, one in facts if f".{one.full or one.symbol}".endswith(f".{name}")]

    def outside(self) -> Iterator[tuple[str, int, str]]:
        """Yield the lines of code that are in no unit, such as imports, with their places."""
        yield from self._db.execute("SELECT path, line, text FROM outside ORDER BY path, line")

    def dense(self, embedder: Embedder) -> Vectors | None:
        """Read the vectors of all units; None where one is missing."""
        return Vectors.read(self._db, embedder, self._column("text"))

    def signatures(self) -> ranking.Signatures:
        """Read the signatures of all units, shape (units, 1 + 128)."""
        whole = b"".join(self._column("minhash"))
        return np.frombuffer(whole, dtype=np.uint32).reshape(-1, ranking.PERMUTATIONS + 1)

    def modes(self) -> tuple[Mode, ...]:
        """Modes that have units, in the order of ``Mode``."""
        return tuple(mode for mode in Mode if mode in self._by_mode)

    def values(self, name: str) -> tuple[str, ...]:
        """List what units have of a filter that compares whole values, folded and in order."""
        return tuple(sorted(value for of, value in self._rows if of == name))

    def allowed(self, mode: Mode, filters: Filters) -> Rows | None:
        """Rows, ascending, of a mode that pass the filters; None where every unit does."""
        narrow = [] if mode is Mode.MIXED else [self._by_mode.get(mode, NOTHING)]
        narrow += [self._having(name, value) for name, value in filters.items()]
        if not narrow or (not filters and len(narrow[0]) == len(self)):
            return None
        return reduce(partial(np.intersect1d, assume_unique=True), sorted(narrow, key=len))

    def _having(self, name: str, value: str) -> Rows:
        """Rows, ascending, that pass a filter."""
        if name not in PATTERNS:
            return self._rows.get((name, folded(value, name)), NOTHING)
        if (expression := pattern(value)) is not None:
            passes = [expression.search(PATTERNS[name](unit)) is not None for unit in self.units]
        else:
            passes = [folded(value) in text for text in self._folded[name]]
        return np.flatnonzero(passes).astype(np.int64)

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str], Rows]:
        """Rows by what a filter compares whole."""
        return rows_by(
            [(name, value) for name in WHOLE for value in values(unit, name)] for unit in self.units
        )

    @cached_property
    def _folded(self) -> Mapping[str, list[str]]:
        """Texts in which a filter looks for a part, folded."""
        texts = PATTERNS.items()
        return {name: [folded(text_of(unit)) for unit in self.units] for name, text_of in texts}

    def _cell(self, column: str, row: int) -> str:
        found = self._db.execute(f"SELECT {column} FROM unit WHERE id = ?", (int(self.ids[row]),))  # noqa: S608  our own names
        return str(found.fetchone()[0])

    def _column(self, name: str) -> list[Any]:
        """Read a column, in the order of rows."""
        held = dict(self._db.execute(f"SELECT id, {name} FROM unit"))  # noqa: S608  as above
        return [held[rowid] for rowid in self.ids.tolist()]


MOST_PHRASES = 5
"""Pairs of words beyond these add nothing."""


class CodeQuestion(NamedTuple):
    """A typed text, taken apart once for all modes."""

    text: str
    typed: str
    clauses: tuple[Clause, ...]
    terms: tuple[str, ...]
    looked_for: str
    """What is typed without what must not be there, for vectors."""
    names: frozenset[str]
    """What it may name: each word joined and lower-cased, and each two or three in a row."""
    pairs: tuple[str, ...]
    """Each two terms in a row, without repetition."""

    @classmethod
    def of(cls, text: str, language: Language) -> "CodeQuestion":
        """Take a text apart."""
        clauses = tuple(leaves(parse(text)))
        terms = terms_of(clauses, language)
        positives = (clause for clause in clauses if clause.occur is not Occur.NOT)
        flat = ["".join(parts(word)) for clause in positives for word in clause.words]
        runs = {
            "".join(flat[at : at + size])
            for size in (1, 2, 3)
            for at in range(len(flat) - size + 1)
        }
        pairs = dict.fromkeys(f" {one} {two} " for one, two in pairwise(terms))
        names = frozenset(runs - {""})
        return cls(text, normalise(text), clauses, terms, positive(text), names, tuple(pairs))


def boosted(
    entry: IndexedUnit, question: CodeQuestion, weights: ranking.Boosts
) -> tuple[float, dict[str, Mapping[str, Any]]]:
    """Return the factor on the score of a candidate, at least 1, and its parts for explain.

    A symbol is named where its bare name, without underscores and case, is a word of the query
    or several in a row: ``read csv`` names ``read_csv``.
    """
    facts = entry.unit.facts
    named = bool(facts.symbol) and "".join(parts(facts.symbol)) in question.names
    definition = weights.definition if named else 1.0
    export = weights.export if named and facts.exported else 1.0
    matches = 0
    if weights.phrase and question.pairs:
        texts = [f" {text} " for text in entry.terms]
        matches = sum(any(pair in text for text in texts) for pair in question.pairs)
    phrase = 1.0 + weights.phrase * min(MOST_PHRASES, matches)
    symbol = {
        "named": named, "exported": facts.exported, "definition": definition, "export": export,
    }  # fmt: skip
    told = {"matches": matches, "factor": phrase}
    return definition * export * phrase, {"symbol": symbol, "phrase": told}


def most(weights: ranking.Boosts) -> float:
    """Return the largest factor that there can be, by which scores stay within [0, 1]."""
    return weights.definition * weights.export * (1.0 + weights.phrase * MOST_PHRASES)


class ContextUnit(NamedTuple):
    """A unit shown for the sake of a hit."""

    row: int
    of: int
    """Row of the hit."""
    reason: ranking.UnitRelation


def expanded(
    hits: Sequence[int],
    graph: ranking.UnitGraph,
    settings: ranking.ContextSettings,
    allowed: Rows | None,
) -> tuple[list[ContextUnit], bool]:
    """Look beside each hit, the strongest reason first; return also whether a cap left some out."""
    passing = None if allowed is None else frozenset(allowed.tolist())
    shown = set(hits)
    context_units: list[ContextUnit] = []
    truncated = False
    for hit in hits:
        mine = 0
        for neighbour in graph.neighbours[hit]:
            if neighbour.row in shown or (passing is not None and neighbour.row not in passing):
                continue
            if mine == settings.per_hit or len(context_units) == settings.total:
                truncated = True
                break
            shown.add(neighbour.row)
            context_units.append(ContextUnit(neighbour.row, hit, neighbour.reason))
            mine += 1
    return context_units, truncated


@dataclass(frozen=True, slots=True)
class CodeHits:
    """The hits, best first, and behind them their context."""

    hits: tuple[ranking.RankedUnit, ...]
    context: tuple[ContextUnit, ...] = ()
    truncated: bool = False
    """Whether a cap left context out."""


@dataclass(frozen=True)
class CodeSearch:
    """An open index of code, prose and records: its sources, asked and put together."""

    catalog: Catalog
    words: WordsBackend
    dense: Vectors | None
    signatures: ranking.Signatures
    settings: ranking.CodeSettings
    named_first: bool = False
    """Whether what has exactly the name that is typed comes before all others."""

    def search(
        self, text: str, top: int, filters: Filters | None = None, mode: Mode | None = None
    ) -> CodeHits:
        """Show the ``top`` best units; fewer only where fewer pass the filters and match.

        Without a text, what passes the filters is listed by id; without either, nothing is. Of a
        text of refusals alone, what it does not refuse is listed.
        ``mode`` is that of the settings where none is given.
        """
        wanted = mode or Mode(self.settings.mode)
        asked = filters or {}
        question = CodeQuestion.of(text, self.settings.language)
        if top < 1 or not (question.typed or asked):
            return CodeHits(())
        if not question.typed or (question.clauses and not question.looked_for):
            return self._shown(self._listed(wanted, asked, question)[:top], wanted, asked)
        depth = min(max(top, self.settings.depth), max(1, len(self.catalog)))
        if wanted is Mode.MIXED and self.settings.mixed == "scores":
            allowed = self.gate(question, self.catalog.allowed(wanted, asked))
            found = self._weighed(self.rank(question, depth, allowed))
        else:
            modes = self.catalog.modes() if wanted is Mode.MIXED else (wanted,)
            gates = {one: self.gate(question, self.catalog.allowed(one, asked)) for one in modes}
            found = self._mixed({
                one: self.rank(question, depth, allowed) for one, allowed in gates.items()
            })
        if self.named_first:
            found = self._named_first(found, question, wanted, asked)
        return self._shown(found[:top], wanted, asked)

    def rank(
        self, question: CodeQuestion, depth: int, allowed: Rows | None
    ) -> list[ranking.RankedUnit]:
        """Rank the ``allowed`` rows (None: all) for a query; every source gives ``depth``."""
        sources = self._sources(question, depth, allowed)
        raw = {name: dict(scored) for name, scored in sources.items()}
        limit = most(self.settings.boosts)
        about = {"backend": self.settings.backend, "weights": self.settings.fields.model_dump()}
        ranked = []
        for one in ranking.fused(sources, self.settings.search):
            factor, why = boosted(self.catalog.entry(one.row), question, self.settings.boosts)
            words, cosine, alike = (raw[name].get(one.row) for name in ("sparse", "ann", "minhash"))
            if words is not None:
                why["sparse"] = {"score": words, **about}
            if cosine is not None:
                why["ann"] = {"score": cosine, "source": "dense", "minhash": alike}
            elif alike is not None:
                why["ann"] = {"score": alike, "source": "minhash", "minhash": alike}
            score = round(one.score * factor / limit, RRF_TIE_DIGITS)
            ranked.append(one.scored(score, **why))
        return sorted(ranked, key=ranking.best_first)

    def gate(self, question: CodeQuestion, allowed: Rows | None) -> Rows | None:
        """Narrow ``allowed`` to what has all that must be there and nothing that must not."""
        demands = held(question.text)
        if not demands.parts:
            return allowed
        every = np.ones(len(self.catalog), np.bool_)

        def having(clause: Clause) -> NDArray[np.bool_]:
            found, must = ~every, replace(clause, occur=Occur.MUST)
            asked = wanted([must], self.settings.language)
            if not asked:
                return every if clause.occur is not Occur.NOT else found
            found[[hit.row for hit in self.words.search(asked, max(1, len(every)), None)]] = True
            return found

        rows = np.flatnonzero(mask(demands, having, every))
        return rows if allowed is None else np.intersect1d(rows, allowed)

    def _sources(self, question: CodeQuestion, depth: int, allowed: Rows | None) -> ranking.Sources:
        looked_for = [
            replace(one, occur=Occur.SHOULD)
            for one in question.clauses
            if one.occur is not Occur.NOT
        ]
        asked = wanted(looked_for, self.settings.language)
        least = self.settings.near_duplicate
        near: Sequence[ScoredUnit] = ()
        if question.terms:
            near = ranking.nearest(self.signatures, question.terms, least, depth, allowed)
        dense = self.dense.nearest(question.looked_for, depth, allowed) if self.dense else []
        return {
            "sparse": self.words.search(asked, depth, allowed),
            "ann": [ScoredUnit(*one) for one in dense],
            "minhash": near,
        }

    def _named_first(
        self, ranked: list[ranking.RankedUnit], question: CodeQuestion, mode: Mode, filters: Filters
    ) -> list[ranking.RankedUnit]:
        """Move units that define what is typed, sign for sign, before all others."""
        rows = self.catalog.named(question.typed.strip())
        if rows and (allowed := self.catalog.allowed(mode, filters)) is not None:
            rows = np.intersect1d(rows, allowed).tolist()
        found, exact = {one.row for one in ranked}, set(rows)
        first = [one for one in ranked if one.row in exact]
        first += [
            ranking.RankedUnit(row, 0.0, ranking.ScoreBreakdown({}))
            for row in rows
            if row not in found
        ]
        named = (one.scored(1.0, selected={"type": "name"}) for one in first)
        return [*named, *(one for one in ranked if one.row not in exact)]

    def _listed(
        self, mode: Mode, filters: Filters, question: CodeQuestion
    ) -> list[ranking.RankedUnit]:
        """List what passes, by id: nothing that is looked for ranks it."""
        allowed = self.gate(question, self.catalog.allowed(mode, filters))
        rows = np.arange(len(self.catalog)) if allowed is None else allowed
        why = ranking.ScoreBreakdown({"type": "filter", "score": 0.0})
        return [ranking.RankedUnit(row, 0.0, why) for row in rows.tolist()]

    def _weighed(self, ranked: list[ranking.RankedUnit]) -> list[ranking.RankedUnit]:
        """Weigh units of one ranking by their mode; BM25 and cosines are of one scale in it."""
        weights = self.settings.modes.model_dump()
        most = max(weights.values())
        if len(set(weights.values())) == 1:
            return ranked
        found = []
        for one in ranked:
            share = weights[self.catalog.entry(one.row).unit.mode] / most
            found.append(one.scored(round(one.score * share, RRF_TIE_DIGITS)))
        return sorted(found, key=ranking.best_first)

    def _mixed(self, ranked: dict[Mode, list[ranking.RankedUnit]]) -> list[ranking.RankedUnit]:
        """Fuse the rankings of modes by weighted reciprocal rank; one alone stays as it is."""
        found = {mode: some for mode, some in ranked.items() if some}
        if len(found) < 2:  # noqa: PLR2004  nothing to fuse
            return next(iter(found.values()), [])
        weights = {mode: float(getattr(self.settings.modes, mode)) for mode in found}
        k = self.settings.mode_rrf_k
        most = max(weights.values()) / (k + 1)
        fused = []
        for mode, some in found.items():
            for rank, one in enumerate(some, start=1):
                share = weights[mode] / (k + rank)
                among = {"mode": mode.value, "rank": rank, "k": k, "weight": weights[mode]}
                rrf = {**(one.why.rrf or {}), "modes": among}
                score = round(share / most, RRF_TIE_DIGITS)
                fused.append(one.scored(score, selected={"type": "rrf"}, rrf=rrf))
        return sorted(fused, key=ranking.best_first)

    def _shown(self, first: list[ranking.RankedUnit], mode: Mode, filters: Filters) -> CodeHits:
        """Order the chosen by the graph where that is wanted, and look beside them."""
        graph, context = self.settings.graph, self.settings.context
        ordered = first if graph is None else ranking.reordered(first, self.catalog.graph, graph)
        if context is None:
            return CodeHits(tuple(ordered))
        rows, allowed = [one.row for one in first], self.catalog.allowed(mode, filters)
        more, truncated = expanded(rows, self.catalog.graph, context, allowed)
        return CodeHits(tuple(ordered), tuple(more), truncated)
