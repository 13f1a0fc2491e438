"""How documents are cut, judged: other sizes, overlaps and ends against the specification's.

    python3 run.py python benchmarks/documents_chunks.py FOLDER [FOLDER ...]

Each FOLDER is a collection in BEIR layout or data that ``harness prepare`` wrote. Chunks are ranked
by BM25 alone and a document counts as its best chunk, as in the arm ``documents-bm25``. Each row is
2,000 characters with 200 of overlap, ending where the text breaks, against one other way; what
stands in it is explained in ``documents_choices.py``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.documents_choices import MEASURE, Choice, Row, compared, table
from benchmarks.lexical_weights import DEPTH, Collection
from engines.lexical.typed import normalise
from engines.stacks.documents.bm25 import Bm25
from engines.stacks.documents.library import Library
from engines.stacks.documents.ranking import RANKED
from engines.stacks.documents.texts.chunking import Cutting
from engines.stacks.documents.texts.sources import of_document
from harness.core.engine import Hit
from harness.core.run import Row as Answered
from harness.core.run import Run, Status
from harness.measures.quality import score

SPECIFIED = Cutting(2000, 200)
OTHERS = {
    "200 shared and ends at breaks, not neither": Cutting(2000, 0),
    "ends at breaks, not anywhere": Cutting(2000, 200, "anywhere"),
    "2,000 characters, not 500": Cutting(500, 50),
    "2,000 characters, not 1,000": Cutting(1000, 100),
    "2,000 characters, not 4,000": Cutting(4000, 400),
    "chunks, not whole documents": Cutting(10**9, 0),
}


def by_query(collection: Collection, cutting: Cutting) -> dict[str, float]:
    """Cut, index, ask, and give nDCG@10 of each query."""
    library = Library.of(map(of_document, collection.documents()), cutting)
    words = Bm25.of(chunk.text for chunk in library.chunks)
    rows = [
        Answered(query.query_id, Status.ANSWERED, found(library, words, query.text))
        for query in collection.queries
    ]
    asked = [query.query_id for query in collection.queries]
    return dict(score(Run.of("words", rows), collection.qrels, [MEASURE], asked)[MEASURE].by_query)


def found(library: Library, words: Bm25, text: str) -> tuple[Hit, ...]:
    """Rank documents by their best chunk."""
    rows = words.search(normalise(text), RANKED).tolist()
    documents = dict.fromkeys(library.chunks[row].provenance.document_id for row in rows)
    ranked = enumerate(list(documents)[:DEPTH], start=1)
    return tuple(Hit(doc_id, 1 / place, 1 / place) for place, doc_id in ranked)


def rows(collection: Collection) -> list[Row]:
    """Compare every way with the specification's on one collection."""
    ours = by_query(collection, SPECIFIED)
    return [
        compared(collection.name, Choice(what, "", ""), ours, by_query(collection, cut))
        for what, cut in OTHERS.items()
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    found = [row for folder in parser.parse_args().folders for row in rows(Collection.read(folder))]
    sys.stdout.write("\n".join(table(found)) + "\n")


if __name__ == "__main__":
    main()
