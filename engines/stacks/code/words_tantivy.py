"""Words of code search in Tantivy: one field, each part of a unit in it as often as it weighs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import tantivy

from engines.lexical.tantivy import begun, best
from engines.lexical.terms import Occur
from engines.stacks.code.units import FIELDS, Rows, Texts
from engines.stacks.code.words import BEGUN, OpenBackend, Phrase, Scored, TermClause

FOLDER = "words"
POSITIONS = "pos"
"""Suffix of the one file of a segment that Tantivy opens without; no phrase would be found."""
ANALYZER = "terms"
HEAP_BYTES = 128_000_000
OCCURS = {
    Occur.SHOULD: tantivy.Occur.Should,
    Occur.MUST: tantivy.Occur.Must,
    Occur.NOT: tantivy.Occur.MustNot,
}


def _terms() -> tantivy.TextAnalyzer:
    """Split at spaces; what is indexed are terms already."""
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()


@dataclass(frozen=True, slots=True)
class TantivyBackend:
    """BM25 over the whole unit, in which a field of weight 3 stands three times."""

    name: str = "tantivy"

    @property
    def version(self) -> str:
        return f"tantivy {version('tantivy')}"

    def build(self, folder: Path, texts: Sequence[Texts], weights: Mapping[str, int]) -> None:
        (folder / FOLDER).mkdir()
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", indexed=True, fast=True)
        builder.add_text_field("text", tokenizer_name=ANALYZER)
        schema = builder.build()
        index = tantivy.Index(schema, path=str(folder / FOLDER))
        index.register_tokenizer(ANALYZER, _terms())
        writer = index.writer(HEAP_BYTES, 1)
        for at, one in enumerate(texts):
            said = [text for field in FIELDS for text in [getattr(one, field)] * weights[field]]
            writer.add_document(tantivy.Document.from_dict({"id": at, "text": said}, schema))
        writer.commit()
        writer.wait_merging_threads()

    @contextmanager
    def open(self, folder: Path, weights: Mapping[str, int]) -> Iterator[OpenBackend]:  # noqa: ARG002  weighed when built
        index = tantivy.Index.open(str(folder / FOLDER))
        for segment in (folder / FOLDER).glob("*.idx"):
            segment.with_suffix(f".{POSITIONS}").stat()
        index.register_tokenizer(ANALYZER, _terms())
        yield OpenTantivy(index.schema, index.searcher())


@dataclass(frozen=True, slots=True)
class OpenTantivy:
    schema: tantivy.Schema
    searcher: tantivy.Searcher

    @property
    def units(self) -> int:
        return int(self.searcher.num_docs)

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[Scored]:
        if not wanted or (allowed is not None and not len(allowed)):
            return []
        asked = tantivy.Query.boolean_query([
            (OCCURS[one.occur], self._any(one.phrases)) for one in wanted
        ])
        if allowed is not None:
            gate = tantivy.Query.term_set_query(self.schema, "id", allowed.tolist())
            must = tantivy.Occur.Must
            asked = tantivy.Query.boolean_query([
                (must, asked),
                (must, tantivy.Query.const_score_query(gate, 0.0)),
            ])
        hits = best(self.searcher, asked, depth, schema=self.schema, ids="id")
        return [Scored(hit.document, hit.key) for hit in hits]

    def _any(self, phrases: Sequence[Phrase]) -> tantivy.Query:
        should = tantivy.Occur.Should
        return tantivy.Query.boolean_query([(should, self._match(phrase)) for phrase in phrases])

    def _match(self, phrase: Phrase) -> tantivy.Query:
        if phrase[-1].endswith(BEGUN):
            return begun(self.schema, "text", phrase[-1].removesuffix(BEGUN))
        if len(phrase) == 1:
            return tantivy.Query.term_query(self.schema, "text", phrase[0], "freq")
        return tantivy.Query.phrase_query(self.schema, "text", list(phrase))
