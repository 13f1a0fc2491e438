"""What words and vectors give for each judged query of a collection, kept for many comparisons.

Every leg is gathered once below a folder and read again later: rankings of lexical arms under other
settings, scores of stemmed words, and the nearest documents by several forms of the vectors.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Searcher
from harness.core.files import write_json
from harness.core.records import Document, Qrels, Scalar
from harness.corpus.beir import Beir
from harness_engines import registry
from harness_engines.stacks.text.blend import BlendSearcher
from harness_engines.vector.embedder import embedder_of

WHOLE, TOKENS = "all-MiniLM-L6-v2", 256
"""The encoder of documents."""
DEPTH = 200
"""Documents of a leg."""
Scores = dict[str, float]
"""Of documents, best first."""
Leg = Mapping[str, Scores]
"""By query."""


@dataclass(frozen=True, eq=False)
class Collection:
    """One split of a BEIR folder, and where its legs are kept."""

    folder: Path
    split: str
    out: Path

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    @cached_property
    def qrels(self) -> Qrels:
        """Judgements of the split."""
        return Beir(self.folder, self.split).qrels()

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """The corpus."""
        return tuple(Beir(self.folder, self.split).documents())

    @cached_property
    def queries(self) -> Mapping[str, str]:
        """Texts of the judged queries, by id."""
        texts = {one.query_id: one.text for one in Beir(self.folder, self.split).queries()}
        return {q: texts[q] for q in self.qrels.query_ids if q in texts}

    def kept(self, name: str, gather: Callable[[], Leg]) -> Leg:
        """Read a leg, or gather and keep it."""
        path = self.out / self.name / "legs" / f"{self.split}-{name}.json"
        if not path.is_file():
            write_json(path, [[q, list(s), list(s.values())] for q, s in gather().items()])
        return {q: dict(zip(*both, strict=True)) for q, *both in json.loads(path.read_text())}

    def arm(
        self,
        arm: str,
        instead: Mapping[str, Scalar] | None = None,
        typed: Callable[[str], str] = str,
    ) -> Leg:
        """Rank by an arm under other settings; ``typed`` changes what is typed."""
        how = ",".join(f"{key}={value}" for key, value in (instead or {}).items())
        label = "-".join(filter(None, (Path(arm).stem, how, typed.__name__.strip("<>"))))

        def gather() -> Leg:
            with self.opened(arm, instead) as searcher:
                return {
                    q: {
                        hit.doc_id: hit.raw_score
                        for hit in searcher.search(typed(text), DEPTH).hits
                    }
                    for q, text in self.queries.items()
                }

        return self.kept(label, gather)

    @contextmanager
    def opened(self, arm: str, instead: Mapping[str, Scalar] | None = None) -> Iterator[Searcher]:
        """Open an arm under other settings; its index is kept for the arm as it stands."""
        made = registry.load(arm, self.out / "cache", instead)
        index = self.out / self.name / (made.name if not instead else f"{made.name}.other")
        if instead or not index.is_dir():
            shutil.rmtree(index, ignore_errors=True)
            index.mkdir(parents=True)
            made.build(self.documents, index)
        with made.open(index) as searcher:
            yield searcher

    @cached_property
    def near(self) -> Near:
        """Vectors of documents and judged queries, both in 32 bits."""
        with self.opened("hybrid") as both:
            assert isinstance(both, BlendSearcher)  # noqa: S101  the arm's file says so
            whole = replace(both.vectors, embedder=embedder_of(WHOLE, TOKENS))
            asked = {q: whole.query_vector(text) for q, text in self.queries.items()}
            store = both.vectors.store
            vectors = np.array(store.vectors, dtype=np.float32)
        return Near(store.doc_ids, vectors, {q: v for q, v in asked.items() if v is not None})

    @cached_property
    def words(self) -> Leg:
        """Scores of stemmed words."""
        return self.arm("tantivy-stem")

    @cached_property
    def vectors(self) -> Leg:
        """Cosines of the nearest documents, and of what words found."""

        def gather() -> Leg:
            return {q: self.near.cosines(q, self.words[q]) for q in self.queries}

        return self.kept("vectors", gather)


@dataclass(frozen=True, eq=False)
class Near:
    """Vectors in memory."""

    doc_ids: Sequence[str]
    documents: NDArray[np.float32]
    queries: Mapping[str, NDArray[np.float32]]

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Row of each document."""
        return {doc_id: row for row, doc_id in enumerate(self.doc_ids)}

    def ranked(self, dots: NDArray[np.float32], depth: int = DEPTH) -> Scores:
        """Give the documents of the highest positive values; equal ones by id."""
        best = np.argsort(-dots, kind="stable")[:depth]
        return {self.doc_ids[row]: float(dots[row]) for row in best.tolist() if dots[row] > 0}

    def cosines(self, query: str, also: Scores) -> Scores:
        """Give the nearest documents, and the cosines of ``also``."""
        if query not in self.queries:
            return {}
        dots = self.documents @ self.queries[query]
        scores = self.ranked(dots)
        return scores | {d: float(dots[self.row[d]]) for d in also if d not in scores}
