"""Words and vectors get the same query; their scores are added as the query weighs them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from harness.core.engine import Answer, Engine, Explained, Hit, Manifest, Searcher, Stage
from harness.core.records import Document, Scalar
from harness_engines.contract import StackSettings, read_ids, write_ids
from harness_engines.lexical import query
from harness_engines.lexical.grammar import binding, exact_clauses, note_refusals
from harness_engines.lexical.terms import Clause, Occur
from harness_engines.ranking import by_best, combine
from harness_engines.stacks.text import dense, tantivy

VERSION = "convex 3"
TITLE_NAMES = "title_names.json"
LEXICAL, SEMANTIC, NAMES = "lexical", "semantic", "names"
"""Folders of the index; the first two are names of stages."""
INLINE_DOCUMENTS = 20_000
"""Up to here words take less than a millisecond, and handing them to a thread gains no time."""


class BlendSettings(StackSettings):
    """What is searched, and what each answer counts."""

    depth: int = Field(ge=1)
    """Candidates taken from words and from vectors; at least as many as are requested."""
    vector_share: float = Field(ge=0, le=1)
    """What the vectors count; words count the rest."""
    name_share: float = Field(ge=0, le=1)
    """What the vectors count where the query is a name, such as ``read_csv``, or all phrases."""
    title_names: bool = True
    """Whether words that are a joined name of a title, such as ``read csv``, are a name too."""
    words: tantivy.TantivySettings
    """Of the stack ``tantivy``."""
    names: tantivy.TantivySettings
    """The same for a query that is a name or all phrases: a name has no stem, and ``where`` is
    not a stop word in code."""
    vectors: dense.DenseSettings
    """Of the stack ``dense``."""


class LegScores(NamedTuple):
    """Scores of the same candidates by each of the two, by document id."""

    words: Mapping[str, float]
    vectors: Mapping[str, float]
    """Exact cosines, also of candidates that only words found."""
    named: bool
    """Whether the query is a name or all phrases."""
    embedded: bool
    """Whether there was anything to embed."""

    def share(self, settings: BlendSettings) -> float:
        """Return what the vectors count."""
        if not self.embedded:
            return 0.0
        return settings.name_share if self.named else settings.vector_share


@dataclass(frozen=True, slots=True)
class Blend(dense.WithDense["BlendSearcher"]):
    ENGINE: ClassVar = "blend"
    settings: BlendSettings
    cache: Path

    def engines(self) -> Mapping[str, Engine]:
        """Make the engine of words and that of vectors."""
        words, names = tantivy.Tantivy(self.settings.words), tantivy.Tantivy(self.settings.names)
        vectors = dense.Dense(self.settings.vectors, self.cache)
        return {LEXICAL: words, SEMANTIC: vectors, NAMES: names}

    @property
    def last_step(self) -> frozenset[str]:
        return frozenset({"vector_share", "name_share"})

    def candidates(self, searcher: Searcher, text: str, k: int) -> LegScores:
        """Return the scores of words and vectors."""
        assert isinstance(searcher, BlendSearcher)  # noqa: S101  ``open`` gives nothing else
        return searcher.found(text, k)

    def combined(self, found: LegScores, k: int) -> tuple[Hit, ...]:
        """Add them up by the shares of these settings."""
        return _combined(found, self.settings, k)

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return VERSION

    def prepare(self, documents: Sequence[Document], index: Path) -> None:
        write_ids(index / TITLE_NAMES, sorted(query.title_names(one.title for one in documents)))

    @contextmanager
    def join(
        self, index: Path, made: Manifest, parts: Mapping[str, Searcher]
    ) -> "Iterator[BlendSearcher]":
        told = frozenset(read_ids(index / TITLE_NAMES) if self.settings.title_names else ())
        vectors = parts[SEMANTIC]
        assert isinstance(vectors, dense.DenseSearcher)  # noqa: S101  ``engines`` names no other
        many = made.documents > INLINE_DOCUMENTS
        with ThreadPoolExecutor(os.cpu_count(), "words") if many else nullcontext() as beside:
            yield BlendSearcher(
                parts[LEXICAL], vectors, parts[NAMES], told, beside, made, self.settings
            )


@dataclass(frozen=True, slots=True)
class BlendSearcher:
    words: Searcher
    vectors: dense.DenseSearcher
    names: Searcher
    title_names: frozenset[str]
    """Joined names of titles, as words."""
    beside: ThreadPoolExecutor | None
    """Looks words up while the query is embedded; None where one follows the other."""
    manifest: Manifest
    settings: BlendSettings

    def search(self, text: str, k: int) -> Answer:
        found = self.found(text, k)
        hits = _combined(found, self.settings, k)
        return Answer(hits, self.manifest.fingerprint, note_refusals(text))

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:  # noqa: ARG002  filters are not known here
        """List words, vectors and their sum; words lead to it, and vectors feed it."""
        found = self.found(text, k)
        return (
            Stage(LEXICAL, by_best(found.words.items(), k)),
            Stage(SEMANTIC, by_best(found.vectors.items(), k), beside=True),
            Stage("fused", _combined(found, self.settings, k)),
        )

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:  # noqa: ARG002  as above
        """Return what the vectors count, and the BM25 score and the cosine of each hit."""
        found = self.found(text, k)
        return Explained(
            {"vector_share": found.share(self.settings)},
            {
                hit.doc_id: {
                    "bm25": found.words.get(hit.doc_id, 0.0),
                    "cosine": found.vectors.get(hit.doc_id, 0.0),
                }
                for hit in _combined(found, self.settings, k)
            },
        )

    def found(self, text: str, k: int) -> LegScores:
        """Return the candidates of both legs, and the cosine of what words found.

        Words that must or must not be there hold for every candidate, so then words alone find.
        """
        wanted = exact_clauses(text)
        if wanted and all(clause.occur is Occur.NOT for clause in wanted):
            left = {hit.doc_id: 1.0 for hit in self.words.search(text, self._depth(k)).hits}
            return LegScores(left, {}, named=False, embedded=False)
        name = query.joined(wanted, self.title_names)
        return self.legs(name or text, text, k, named=bool(name) or is_name(wanted))

    def legs(self, words: str, text: str, k: int, *, named: bool) -> LegScores:
        """Look ``words`` up as a name or as plain words, and ``text`` up by its vector."""
        depth = self._depth(k)
        look_up = partial((self.names if named else self.words).search, words, depth)
        looked_up = self.beside.submit(look_up).result if self.beside else look_up
        asked = self.vectors.query_vector(text)
        nearest = {} if asked is None or binding(text) else self.vectors.store.nearest(asked, depth)
        vectors = dict(nearest)
        scores = {hit.doc_id: hit.raw_score for hit in looked_up().hits}
        if asked is None:
            return LegScores(scores, {}, named, embedded=False)
        others = [doc_id for doc_id in scores if doc_id not in vectors]
        vectors |= self.vectors.store.cosines(asked, others)
        return LegScores(scores, vectors, named, embedded=True)

    def _depth(self, k: int) -> int:
        return max(k, self.settings.depth)


def is_name(wanted: Sequence[Clause]) -> bool:
    """Return whether clauses are one word, or nothing but phrases; an abstract may quote a word."""
    looked_for = [clause for clause in wanted if clause.occur is not Occur.NOT]
    return len(wanted) == 1 or (bool(looked_for) and all(c.quoted for c in looked_for))


def _combined(found: LegScores, settings: BlendSettings, k: int) -> tuple[Hit, ...]:
    share = found.share(settings)
    scores = {LEXICAL: found.words, SEMANTIC: found.vectors}
    return combine(scores, {LEXICAL: 1 - share, SEMANTIC: share}, k)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Blend(BlendSettings.model_validate(settings), cache)
