"""Sets of names that no arm was made with: the documentation of other packages, as the demo's.

    pip install --no-deps --target FOLDER scikit-learn==1.9.1 networkx==3.6.1 xarray==2026.9.0
    export PYTHONPATH=FOLDER
    python3 run.py python benchmarks/names_sets.py sklearn networkx xarray --to out/sets

Each package becomes a collection in BEIR layout: its public functions, classes and methods, their
summary lines and names as queries, and See Also as judgements (``harness.collections``). The
packages are read and never imported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from harness.collections.python_docs import PythonDocs, read
from harness.corpus.card import Harvesting

DEEPEST = 2
"""Levels of subpackages that count as public."""
INNER = frozenset({"conftest", "externals", "testing", "tests"})
EVERYTHING, NAMES = 100_000, 400
"""Documents and summaries, where no fewer are asked for, and names as in the demo."""
WORDS, CHARACTERS = 20, 2_000


def namespaces(root: str) -> list[str]:
    """List a package and its public subpackages."""
    spec = find_spec(root)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{root}: not installed here; see the head of this script")
    folder = Path(spec.submodule_search_locations[0])
    inside = sorted(path.parent.relative_to(folder).parts for path in folder.rglob("__init__.py"))
    public = (
        parts
        for parts in inside
        if len(parts) <= DEEPEST and not any(p.startswith("_") or p in INNER for p in parts)
    )
    return [".".join((root, *parts)) for parts in public]


def write(found: PythonDocs, to: Path) -> None:
    """Write a set in BEIR layout."""
    (to / "qrels").mkdir(parents=True, exist_ok=True)
    _lines(
        to / "corpus.jsonl",
        ({"_id": d.doc_id, "title": d.title, "text": d.text} for d in found.documents),
    )
    _lines(to / "queries.jsonl", ({"_id": q.query_id, "text": q.text} for q in found.queries))
    rows = (f"{query}\t{document}\t{grade}\n" for query, document, grade in found.qrels.rows())
    (to / "qrels" / "test.tsv").write_text(
        "".join(["query-id\tcorpus-id\tscore\n", *rows]), encoding="utf-8"
    )


def _lines(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def main() -> None:
    """Write a set for each package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=EVERYTHING, help="at most, of a package")
    args = parser.parse_args()
    for root in args.packages:
        settings = Harvesting(
            namespaces=namespaces(root),
            packages={},
            documents=args.documents,
            natural_language=EVERYTHING,
            identifiers=NAMES,
            fewest_words=WORDS,
            characters=CHARACTERS,
        )
        found = read(settings)
        write(found, args.to / root)
        counts = f"{len(found.documents)} documents, {len(found.queries)} queries"
        sys.stdout.write(f"{root}: {counts}\n")


if __name__ == "__main__":
    main()
