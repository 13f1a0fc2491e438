"""Words of code search: queries, and their two engines, SQLite and Tantivy.

Tantivy has one field, in which each part of a unit stands as often as it weighs.
"""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tantivy

from harness_engines.lexical.grammar import seldom
from harness_engines.lexical.tantivy import OCCURS, Language, begun, columns
from harness_engines.lexical.terms import Clause, Occur, sign_term
from harness_engines.stacks.code.units import FIELDS, Rows, UnitTexts, words

Phrase = tuple[str, ...]
_DOTTED = re.compile(r"\w[.@]\w")
BEGUN = "*"
"""At the end of a term: any term that begins so."""


@dataclass(frozen=True, slots=True)
class TermClause:
    """One clause: any of its phrases will do; a phrase of one term is that term."""

    occur: Occur
    phrases: tuple[Phrase, ...]


def wanted(clauses: Sequence[Clause], language: Language) -> tuple[TermClause, ...]:
    """Write clauses as terms; empty where they have none, or only such as must not match.

    A word of several parts such as ``read_csv`` or ``DataFrame`` asks for its parts and for its
    joined form; words in quotation marks are one phrase. With dots, as in ``2.4.1``, the parts are
    also such a phrase. A name with a sign must match, or must not, with it.
    """
    found = [one for clause in clauses if (one := _of(clause, language)).phrases]
    return tuple(found) if any(one.occur is not Occur.NOT for one in found) else ()


def terms_of(clauses: Sequence[Clause], language: Language) -> Phrase:
    """Return the terms of a query in their order, for phrases and near duplicates."""
    return tuple(
        term
        for clause in clauses
        if clause.occur is not Occur.NOT
        for word in clause.words
        for term in words(word, language)[0]
    )


def _of(clause: Clause, language: Language) -> TermClause:
    """Write a clause; words without spaces that must match, or must not, are a phrase."""
    runs = (clause.text,) if clause.text else clause.words
    both = [words(run, language) for run in runs]
    in_order = tuple(term for terms, _ in both for term in terms)
    if clause.begun and (start := words(clause.words[0], "none")[0]):
        return TermClause(clause.occur, ((start[-1] + BEGUN,),))
    if clause.occur is not Occur.SHOULD and clause.sign_name:
        return TermClause(clause.occur, ((sign_term(clause.sign_name),),))
    if clause.elided:
        return TermClause(clause.occur, (in_order, in_order[-1:]))
    if clause.quoted or not (clause.occur is Occur.SHOULD or clause.text.isascii()):
        return TermClause(clause.occur, (in_order,) if in_order else ())
    joined = [whole for _, wholes in both for whole in wholes]
    phrases = [(term,) for term in seldom([*in_order, *joined], str)]
    row = [in_order] if _DOTTED.search(clause.text) else []
    return TermClause(clause.occur, (*phrases, *row))


class ScoredUnit(NamedTuple):
    """A unit's row, and a score of which higher is better."""

    row: int
    score: float


def match_expression(wanted: Sequence[TermClause]) -> str:
    """Write clauses in FTS5's language, every phrase quoted; empty where there are none.

    What must match is written twice where something else may match, and counts twice in bm25; so
    the latter is written twice as well.
    """
    groups: dict[Occur, list[str]] = {occur: [] for occur in Occur}
    for one in wanted:
        phrases = [" ".join(phrase) for phrase in one.phrases]
        quoted = [f'"{of.removesuffix(BEGUN)}"{BEGUN * of.endswith(BEGUN)}' for of in phrases]
        groups[one.occur].append(f"({' OR '.join(quoted)})")
    should, must = groups[Occur.SHOULD], groups[Occur.MUST]
    asked = " OR ".join(should)
    if must:
        every = " AND ".join(must)
        asked = f"({every}) AND ({every} OR {asked} OR {asked})" if asked else every
    if groups[Occur.NOT] and asked:
        asked = f"({asked}) NOT ({' OR '.join(groups[Occur.NOT])})"
    return asked


@dataclass(frozen=True, slots=True)
class StoredWords:
    """BM25 of SQLite: it adds a term's counts over fields, each times its weight, and levels."""

    db: sqlite3.Connection
    ids: Rows
    """Key of each row in the tables."""
    weights: Mapping[str, int]

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[ScoredUnit]:
        """Return the ``depth`` best of the ``allowed`` rows (None: all), ties by row."""
        expression = match_expression(wanted)
        if not expression or (allowed is not None and not len(allowed)):
            return []
        weigh = f"bm25({', '.join(f'{self.weights[field]}.0' for field in FIELDS)})"
        gate = "" if allowed is None else " AND rowid IN (SELECT value FROM json_each(?))"
        given = [] if allowed is None else [json.dumps(self.ids[allowed].tolist())]
        ascend = bool((np.diff(self.ids) > 0).all())
        tie = "rowid" if ascend else "(SELECT doc_id FROM unit WHERE id = search.rowid)"
        found = self.db.execute(
            f"SELECT rowid, -rank FROM search WHERE search MATCH ? AND rank MATCH ?{gate}"  # noqa: S608  no text of anybody
            f" ORDER BY rank, {tie} LIMIT ?",
            (expression, weigh, *given, depth),
        ).fetchall()
        order = np.argsort(self.ids)
        keys = np.array([row[0] for row in found], dtype=np.int64)
        rows = order[np.searchsorted(self.ids, keys, sorter=order)].tolist()
        return [ScoredUnit(row, score) for row, (_, score) in zip(rows, found, strict=True)]


FOLDER = "words"
POSITIONS = "pos"
"""Suffix of the one file of a segment that Tantivy opens without; no phrase would be found."""
ANALYZER = "terms"
BY = f"tantivy {version('tantivy')}"
HEAP_BYTES = 128_000_000


def build(folder: Path, texts: Sequence[UnitTexts], weights: Mapping[str, int]) -> None:
    """Index the terms of units by Tantivy."""
    (folder / FOLDER).mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", indexed=True, fast=True)
    builder.add_text_field("text", tokenizer_name=ANALYZER)
    schema = builder.build()
    index = tantivy.Index(schema, path=str(folder / FOLDER))
    index.register_tokenizer(ANALYZER, _at_spaces())
    writer = index.writer(HEAP_BYTES, 1)
    for at, one in enumerate(texts):
        said = [text for field in FIELDS for text in [getattr(one, field)] * weights[field]]
        writer.add_document(tantivy.Document.from_dict({"id": at, "text": said}, schema))
    writer.commit()
    writer.wait_merging_threads()


def opened(folder: Path) -> "OpenTantivy":
    """Open what was built."""
    index = tantivy.Index.open(str(folder / FOLDER))
    for segment in (folder / FOLDER).glob("*.idx"):
        segment.with_suffix(f".{POSITIONS}").stat()
    index.register_tokenizer(ANALYZER, _at_spaces())
    return OpenTantivy(index.schema, index.searcher())


def _at_spaces() -> tantivy.TextAnalyzer:
    """Split at spaces; what is indexed are terms already."""
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()


@dataclass(frozen=True, slots=True)
class OpenTantivy:
    schema: tantivy.Schema
    searcher: tantivy.Searcher

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[ScoredUnit]:
        """Return the ``depth`` best of the ``allowed`` rows (None: all), ties by row."""
        if not wanted or (allowed is not None and not len(allowed)):
            return []
        should, must = tantivy.Occur.Should, tantivy.Occur.Must
        asked = tantivy.Query.boolean_query([
            (
                OCCURS[one.occur],
                tantivy.Query.boolean_query([(should, self._match(of)) for of in one.phrases]),
            )
            for one in wanted
        ])
        if allowed is not None:
            gate = tantivy.Query.term_set_query(self.schema, "id", allowed.tolist())
            none = tantivy.Query.const_score_query(gate, 0.0)
            asked = tantivy.Query.boolean_query([(must, asked), (must, none)])
        return list(
            map(ScoredUnit, *columns(self.searcher, asked, depth, schema=self.schema, ids="id"))
        )

    def _match(self, phrase: Phrase) -> tantivy.Query:
        if phrase[-1].endswith(BEGUN):
            return begun(self.schema, "text", phrase[-1].removesuffix(BEGUN))
        if len(phrase) == 1:
            return tantivy.Query.term_query(self.schema, "text", phrase[0], "freq")
        return tantivy.Query.phrase_query(self.schema, "text", list(phrase))


WordsBackend = StoredWords | OpenTantivy
"""An open index of words."""
