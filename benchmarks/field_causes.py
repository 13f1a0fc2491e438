"""Why our words and a published BM25 differ on a collection: its settings, changed one by one.

    python3 run.py python benchmarks/field_causes.py FOLDER [FOLDER ...]

Each FOLDER is a collection in BEIR layout; its judgements are those of the split test, or of dev
where there is no test. A plain BM25 begins with the settings of the published figure: k1 0.9, b
0.4, the title once, stems, and the stop words of Lucene, which Tantivy has too. It takes over one
setting of ``tantivy-stem`` after another, and the last row is ``tantivy-stem`` itself. A row apart
has Terrier's form of the inverse document frequency, which falls below 0 for common words.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engines import registry
from engines.lexical.analysis import analyzer
from engines.lexical.normal import word
from engines.lexical.terms import indexed
from harness import score
from harness.core.qrels import Qrels
from harness.core.records import Document
from harness.corpus.beir import Beir

MEASURES = ("nDCG@10", "RR@10", "AP@100", "AP@1000")
SHOWN = 1_000
STEMS = "tantivy-stem"
Run = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a plain BM25 over one field."""

    k1: float = 0.9
    b: float = 0.4
    titles: int = 1
    """How often the title counts."""
    terriers: bool = False
    """Whether the inverse document frequency is Terrier's and not Lucene's."""

    def weight(self, documents: int, having: int) -> float:
        """Give the inverse document frequency of a term that so many documents have."""
        odds = (documents - having + 0.5) / (having + 0.5)
        return float(np.log(odds if self.terriers else 1 + odds))


STEPS: Mapping[str, Settings] = {
    "as published: k1 0.9, b 0.4": Settings(),
    "k1 1.2 and b 0.75": Settings(k1=1.2, b=0.75),
    "and the title twice": Settings(k1=1.2, b=0.75, titles=2),
}
APART: Mapping[str, Settings] = {
    "k1 1.2, b 0.75, the title once, Terrier's frequencies": Settings(
        k1=1.2, b=0.75, terriers=True
    ),
}


@dataclass(frozen=True, slots=True)
class Plain:
    """A plain BM25 over the stems of a collection."""

    documents: Sequence[Document]
    settings: Settings

    def run(self, queries: Mapping[str, str]) -> Run:
        """Rank by the sum over terms, ties by document id."""
        of = self.settings
        counts = [
            Counter(_terms(" ".join([*[one.title] * of.titles, one.text])))
            for one in self.documents
        ]
        lengths = np.array([sum(one.values()) for one in counts], dtype=float)
        norms = of.k1 * (1 - of.b + of.b * lengths / lengths.mean())
        rows: dict[str, list[tuple[int, int]]] = {}
        for at, one in enumerate(counts):
            for term, n in one.items():
                rows.setdefault(term, []).append((at, n))

        def ranked(text: str) -> Mapping[str, float]:
            scores = np.zeros(len(counts))
            for term, times in Counter(_terms(text)).items():
                if term in rows:
                    at, n = np.array(rows[term]).T
                    weight = of.weight(len(counts), len(at)) * times
                    scores[at] += weight * n * (of.k1 + 1) / (n + norms[at])
            order = np.argsort(-scores, kind="stable")[:SHOWN]
            return {
                self.documents[at].doc_id: float(-r) for r, at in enumerate(order) if scores[at]
            }

        return {q: ranked(text) for q, text in queries.items()}


def _terms(text: str) -> list[str]:
    written = " ".join(one[0] for one in word().finditer(indexed(text)))
    return analyzer("english").analyze(written)


def shipped(documents: Sequence[Document], queries: Mapping[str, str]) -> Run:
    """Rank by ``tantivy-stem``."""
    with tempfile.TemporaryDirectory() as folder:
        arm = registry.load(STEMS, Path(folder) / "cache")
        index = Path(folder) / "index"
        index.mkdir()
        arm.build(documents, index)
        with arm.open(index) as searcher:
            return {
                q: {h.doc_id: -float(r) for r, h in enumerate(searcher.search(text, SHOWN).hits)}
                for q, text in queries.items()
            }


def lines(folder: Path) -> Iterator[str]:
    """Yield the table of a collection."""
    given = Beir(folder, "test" if (folder / "qrels" / "test.tsv").is_file() else "dev")
    qrels: Qrels = given.qrels()
    documents = sorted(given.documents(), key=lambda one: one.doc_id)
    texts = {one.query_id: one.text for one in given.queries()}
    queries = {q: texts[q] for q in qrels.query_ids if q in texts}
    yield f"| {folder.resolve().name} | " + " | ".join(MEASURES) + " |"
    yield "|---|" + "---|" * len(MEASURES)
    runs = {name: Plain(documents, of).run(queries) for name, of in {**STEPS, **APART}.items()}
    for name, run in (runs | {f"`{STEMS}`": shipped(documents, queries)}).items():
        found = score(run, qrels, MEASURES).scores
        yield f"| {name} | " + " | ".join(f"{found[m].mean:.4f}" for m in MEASURES) + " |"
    yield ""


def main() -> None:
    """Print a table for each folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    for folder in parser.parse_args().folders:
        sys.stdout.write("\n".join([*lines(folder), ""]))


if __name__ == "__main__":
    main()
