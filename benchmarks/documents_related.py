"""Whether chunks related to an answer find what it lacks, judged against the ranks that follow.

    python3 run.py python benchmarks/documents_related.py FOLDER --arm documents-free-words

FOLDER is a collection in BEIR layout or data that ``harness prepare`` wrote. Of each query the
first five chunks are shown. A relevant document that none of them is of is lacking. It is found by
the five chunks related to them, by ranks 6 to 10, by both or by neither. ``p`` is McNemar's exact
test over the documents that one of the two finds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from scipy.stats import binomtest

from benchmarks.lexical_weights import Collection
from engines import registry as arms
from engines.stacks.documents import collection
from engines.stacks.documents.arm import Documents
from engines.stacks.documents.collection import Collection as Opened
from engines.stacks.documents.settings import Settings
from engines.stacks.documents.texts.provenance import Provenance
from engines.stacks.documents.texts.sources import of_document
from harness.core.durable.scratch import scratch
from harness.core.records import Query

SHOWN = 5


class Counted(NamedTuple):
    """Relevant documents that the first five chunks lack, and what finds them."""

    lacking: int
    related: int
    following: int
    both: int

    @property
    def p_value(self) -> float:
        """Two-sided, that either finds more; 1 where neither finds any alone."""
        alone = self.related - self.both, self.following - self.both
        return float(binomtest(alone[0], sum(alone)).pvalue) if any(alone) else 1.0

    def __str__(self) -> str:
        return (
            f"{self.lacking} relevant documents are lacking: {self.related} are in the {SHOWN}"
            f" related chunks, {self.following} in ranks {SHOWN + 1} to {2 * SHOWN},"
            f" {self.both} in both; p = {self.p_value:.3f}"
        )


def counted(judged: Collection, settings: Settings, cache: Path) -> Counted:
    """Index a collection, and count over its queries."""
    with scratch() as index:
        collection.build(map(of_document, judged.documents()), index, settings, cache)
        with collection.opened(index, settings, judged.name) as opened:
            each = [one for query in judged.queries for one in _of_query(judged, opened, query)]
    return Counted(
        len(each),
        sum(related for related, _ in each),
        sum(following for _, following in each),
        sum(related and following for related, following in each),
    )


def _of_query(judged: Collection, opened: Opened, query: Query) -> Iterator[tuple[bool, bool]]:
    """Yield of each lacking document whether related chunks and following ranks find it."""
    answer = opened.search(query.text, 2 * SHOWN)
    places = [found.provenance for found in answer.results]
    first = replace(answer, results=answer.results[:SHOWN])
    related = documents(one.provenance for one in opened.expand(first, SHOWN).chunks)
    shown, following = documents(places[:SHOWN]), documents(places[SHOWN:])
    grades = judged.qrels.grades.get(query.query_id, {})
    for doc_id in sorted({doc_id for doc_id, grade in grades.items() if grade > 0} - shown):
        yield doc_id in related, doc_id in following


def documents(places: Iterable[Provenance]) -> set[str]:
    """Name the documents of places."""
    return {place.document_id for place in places}


def main() -> None:
    """Print one sentence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arm", default="documents-free-words")
    parser.add_argument("--cache", type=Path, default=Path(".cache"))
    given = parser.parse_args()
    engine = arms.load(given.arm, given.cache).engine
    if not isinstance(engine, Documents):
        parser.error(f"{given.arm} is not an arm of the stack documents")
    sys.stdout.write(f"{counted(Collection.read(given.folder), engine.settings, given.cache)}\n")


if __name__ == "__main__":
    main()
