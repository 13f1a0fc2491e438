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
from typing import Any

from benchmarks.documents_choices import Choice, Row, compared, table
from benchmarks.lexical_weights import Collection, measured
from engines.stacks.text import documents

WORDS: dict[str, Any] = {
    "tier": "free",
    "recall": "bm25",
    "embedder": "",
    "sparse": "",
    "max_tokens": 256,
    "fusion": "specification",
    "blend": "specification",
}
SPECIFIED = (2000, 200, "break")
WHOLE = (10**9, 0, "break")
OTHERS = {
    "200 shared, not 0": (2000, 0, "break"),
    "ends at breaks, not anywhere": (2000, 200, "anywhere"),
    "2,000 characters, not 500": (500, 50, "break"),
    "2,000 characters, not 1,000": (1000, 100, "break"),
    "2,000 characters, not 4,000": (4000, 400, "break"),
    "chunks, not whole documents": WHOLE,
}


def by_query(collection: Collection, cut: tuple[int, int, str]) -> dict[str, float]:
    """Cut, index, ask, and give nDCG@10 of each query."""
    characters, overlap, ends = cut
    settings = WORDS | {
        "chunk_characters": characters,
        "chunk_overlap": overlap,
        "chunk_ends": ends,
    }
    return dict(measured(documents.engine(settings, Path()), collection).by_query)


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
