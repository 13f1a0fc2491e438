"""Tantivy with BM25 over title and text."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal

import tantivy

from harness.core.engine import Answer, Engine, Manifest
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import FileEngine, sort_by_id
from harness_engines.lexical import query
from harness_engines.lexical.grammar import note_nothing, note_refusals, parse
from harness_engines.lexical.tantivy import Language, analyzer, begun, columns, compiled
from harness_engines.lexical.terms import FORM, Clause, clause_terms, indexed
from harness_engines.ranking import by_best

IDS = "ids.json"
POSITIONS = "pos"
"""Suffix of the one file of a segment that Tantivy opens without; no phrase would be found."""
ANALYZER = "text_as_typed"
HEAP_BYTES = 256_000_000


class TantivySettings(query.Weighed):
    """How Tantivy splits text, how it weighs what it finds, and how the index is written."""

    language: Language
    joined: Literal["phrase", "words", "both"]
    """A joined word such as ``read_csv`` asks for the phrase, for its words, or for both."""


@dataclass(frozen=True, slots=True)
class Tantivy(FileEngine["TantivySearcher"]):
    ENGINE: ClassVar = "tantivy"
    settings: TantivySettings

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return f"{version('tantivy')}, {FORM}"

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", indexed=True, fast=True)
        for field in self.settings.weights:
            builder.add_text_field(field, tokenizer_name=ANALYZER)
        schema = builder.build()
        folder = tantivy.Index(schema, path=str(index))
        folder.register_tokenizer(ANALYZER, analyzer(self.settings.language))
        writer = folder.writer(HEAP_BYTES, 1)
        rows = ((d.doc_id, indexed(d.title), indexed(d.text)) for d in documents)
        doc_ids: list[str] = []
        for doc_id, title, text in sort_by_id(rows):
            row = {"id": len(doc_ids), **self.settings.indexed(title, text)}
            writer.add_document(tantivy.Document.from_dict(row, schema))
            doc_ids.append(doc_id)
        writer.commit()
        writer.wait_merging_threads()
        contract.write_ids(index / IDS, doc_ids)

    @contextmanager
    def load(self, index: Path, made: Manifest) -> "Iterator[TantivySearcher]":
        doc_ids = contract.read_ids(index / IDS)
        with contract.reading(index, ValueError, OSError):
            folder = tantivy.Index.open(str(index))
            for segment in index.glob("*.idx"):
                segment.with_suffix(f".{POSITIONS}").stat()
        folder.register_tokenizer(ANALYZER, analyzer(self.settings.language))
        searcher = folder.searcher()
        contract.check_count(index, made, searcher.num_docs)
        contract.check_count(index, made, len(doc_ids))
        words = analyzer(self.settings.language)
        yield TantivySearcher(folder.schema, searcher, words, doc_ids, made, self.settings)


@dataclass(frozen=True, slots=True)
class TantivySearcher:
    schema: tantivy.Schema
    searcher: tantivy.Searcher
    analyzer: tantivy.TextAnalyzer
    doc_ids: tuple[str, ...]
    manifest: Manifest
    settings: TantivySettings

    def search(self, text: str, k: int) -> Answer:
        query = compiled(parse(text), self._clause)
        if query is None:
            why = note_nothing(text, has_stop_words=self.settings.language == "english")
            return Answer((), self.manifest.fingerprint, why)
        found = columns(self.searcher, query, k, schema=self.schema, ids="id")
        scored = zip(map(self.doc_ids.__getitem__, found.documents), found.keys, strict=True)
        return Answer(by_best(scored, k), self.manifest.fingerprint, note_refusals(text))

    def _clause(self, clause: Clause) -> tantivy.Query | None:
        weights, should = self.settings.weights.items(), tantivy.Occur.Should
        whole, each = clause_terms(clause, self.settings.joined)
        if clause.begun and whole:
            found = [(begun(self.schema, field, whole[-1].lower()), by) for field, by in weights]
        else:
            options = [[term] for term in self._terms(each)]
            in_order = list(self._terms(whole))
            if in_order and (len(in_order) > 1 or not options):
                options.append(in_order)
            found = [(self._match(field, some), by) for some in options for field, by in weights]
        boosted = [(should, tantivy.Query.boost_query(query, by)) for query, by in found]
        return tantivy.Query.boolean_query(boosted) if boosted else None

    def _terms(self, words: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield terms with their places; a stop word is no term, but keeps its place."""
        at = 0
        for word in words:
            terms = self.analyzer.analyze(word)
            yield from enumerate(terms, start=at)
            at += max(1, len(terms))

    def _match(self, field: str, terms: list[tuple[int, str]]) -> tantivy.Query:
        if len(terms) == 1:
            return tantivy.Query.term_query(self.schema, field, terms[0][1], "freq")
        return tantivy.Query.phrase_query(self.schema, field, list(terms))


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from an arm's settings."""
    return Tantivy(TantivySettings.model_validate(settings))
