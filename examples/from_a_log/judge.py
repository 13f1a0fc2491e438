"""Judge the open pairs of a pool by judgements that are there, to try the guide without a judge.

Queries are found by their text. A pair without a judgement is 0, as in a set of known items.
"""  # noqa: INP001  started by its path; it belongs to no package

from __future__ import annotations

import argparse
from pathlib import Path

from harness.core.errors import HarnessError
from harness.corpus import beir, jsonl, pool


def main() -> None:
    """Read the judgements, and fill the pool in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path, help="As harness queries pool wrote it.")
    parser.add_argument("--queries", type=Path, required=True, help="Queries as JSON lines.")
    parser.add_argument("--qrels", type=Path, required=True, help="BEIR's three columns.")
    asked = parser.parse_args()
    try:
        fill(asked.pool, asked.queries, asked.qrels)
    except HarnessError as exc:
        parser.error(str(exc))


def fill(path: Path, queries: Path, qrels: Path) -> None:
    """Grade every open pair."""
    ids = {_plain(query.text): query.query_id for query in jsonl.queries(queries)}
    grades = beir.qrels(qrels).grades
    found = pool.read(path)
    for at in found.open:
        pair = found.pairs[at]
        known = grades.get(ids.get(_plain(pair.query), ""), {})
        found = found.graded(at, min(known.get(pair.doc_id, 0), max(pair.scale)))
    pool.write_grades(path, found)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


if __name__ == "__main__":
    main()
