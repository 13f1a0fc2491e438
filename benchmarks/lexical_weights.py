"""What the weight of a title and the reading of joined words do to BM25, engine by engine.

    python3 run.py python benchmarks/lexical_weights.py FOLDER [FOLDER ...]

Each FOLDER is a collection in BEIR layout, whose split ``test`` is measured, or data that ``harness
prepare`` wrote (``build/python-docs/data``), whose slices get a column each. Prints nDCG@10 as a
Markdown table: the numbers of docs/decisions/0003 and 0004.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engines.stacks.text import fts5, tantivy
from harness.core.engine import Engine
from harness.core.qrels import Qrels
from harness.core.records import Document, Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.corpus.beir import Beir
from harness.corpus.prepared import Prepared
from harness.measures.quality import score
from harness.stages.score.stage import slices

MEASURE = "nDCG@10"
SPLIT = "test"
DEPTH = 10


class Collection(NamedTuple):
    """What is searched, asked and judged."""

    name: str
    documents: Callable[[], Iterator[Document]]
    queries: tuple[Query, ...]
    qrels: Qrels

    @classmethod
    def read(cls, folder: Path) -> Collection:
        """Read prepared data or a folder in BEIR layout."""
        if (folder / "manifest.json").is_file():
            data = Prepared.open(folder)
            return cls(data.manifest.name, data.documents, data.queries(), data.qrels())
        beir = Beir(folder, SPLIT)
        judged = beir.qrels()
        asked = tuple(query for query in beir.queries() if query.query_id in judged.grades)
        return cls(folder.resolve().name, beir.documents, asked, judged)

    @property
    def columns(self) -> Mapping[str, frozenset[str]]:
        """Query ids of each column of the table: all of them, then each slice."""
        own = slices(self.queries)
        return {
            self.name: frozenset(query.query_id for query in self.queries),
            **{f"{self.name}: {name}": ids for name, ids in own.items()},
        }


def variants() -> Iterator[tuple[str, Engine]]:
    """Name and make each engine that is compared."""
    for joined in ("both", "words", "phrase"):
        for tokenize in ("unicode61", "porter unicode61"):
            settings = _settings(joined, 2.0) | {"tokenize": tokenize}
            yield f"FTS5, {tokenize}, title 2, joined {joined}", fts5.engine(settings, Path())
    for language in ("none", "english"):
        for over, weight in (("document", 2.0), ("fields", 2.0), ("fields", 0.5)):
            settings = _settings("both", weight) | {"language": language, "bm25_over": over}
            name = f"Tantivy, {language}, BM25 over {over}, title {weight:g}, joined both"
            yield name, tantivy.engine(settings, Path())


def _settings(joined: str, title_weight: float) -> dict[str, Any]:
    return {"joined": joined, "title_weight": title_weight, "text_weight": 1.0}


def measured(engine: Engine, collection: Collection) -> Scores:
    """Index one collection with one engine, ask everything, and score it."""
    with tempfile.TemporaryDirectory() as folder:
        engine.build(collection.documents(), Path(folder))
        with engine.open(Path(folder)) as searcher:
            rows = [
                Row(query.query_id, Status.ANSWERED, searcher.search(query.text, DEPTH).hits)
                for query in collection.queries
            ]
    asked = [query.query_id for query in collection.queries]
    return score(Run.of("arm", rows), collection.qrels, [MEASURE], asked)[MEASURE]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="nDCG@10 by title weight and joined words.")
    parser.add_argument("folders", nargs="+", type=Path, help="BEIR layout, or prepared data.")
    collections = [Collection.read(folder) for folder in parser.parse_args().folders]
    heads = [name for collection in collections for name in collection.columns]
    print("| " + " | ".join([MEASURE, *heads]) + " |")  # noqa: T201  the table is the output
    print("|" + " --- |" * (len(heads) + 1))  # noqa: T201
    for name, engine in variants():
        cells = [
            "-" if (mean := found.only(ids).mean) is None else f"{mean:.4f}"
            for collection in collections
            for found in [measured(engine, collection)]
            for ids in collection.columns.values()
        ]
        print("| " + " | ".join([name, *cells]) + " |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
