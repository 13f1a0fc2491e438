"""Judge the open pairs of a pool by judgements that are there, to try the guide without a judge.

Queries are found by their text. Of a query that is judged, a pair without a judgement is 0, as in a
set of known items. Pairs of other queries stay open.
"""  # noqa: INP001  started by its path; it belongs to no package

import argparse
from collections.abc import Iterable
from pathlib import Path

from harness.core.errors import HarnessError
from harness.corpus import beir, judgements


def main() -> None:
    """Read the judgements, and fill the pool in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path, help="As harness queries pool wrote it.")
    parser.add_argument("--queries", type=Path, required=True, help="Queries as JSON lines.")
    parser.add_argument(
        "--qrels", type=Path, required=True, nargs="+", help="BEIR's three columns, in files."
    )
    asked = parser.parse_args()
    try:
        found = filled(judgements.read_pool(asked.pool), asked.queries, asked.qrels)
        judgements.write_grades(asked.pool, found)
    except HarnessError as exc:
        parser.error(str(exc))
    print(f"{len(found.pairs) - len(found.open)} of {len(found.pairs)} pairs are judged")  # noqa: T201


def filled(found: judgements.Pool, queries: Path, qrels: Iterable[Path]) -> judgements.Pool:
    """Grade the open pairs of queries that are judged."""
    ids = {_plain(query.text): query.query_id for query in beir.queries(queries)}
    grades: dict[str, dict[str, int]] = {}
    for file in qrels:
        for query_id, known in beir.qrels(file).grades.items():
            grades.setdefault(query_id, {}).update(known)
    for at in found.open:
        pair = found.pairs[at]
        if known := grades.get(ids.get(_plain(pair.query), "")):
            found = found.graded(at, min(known.get(pair.doc_id, 0), max(pair.scale)))
    return found


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


if __name__ == "__main__":
    main()
