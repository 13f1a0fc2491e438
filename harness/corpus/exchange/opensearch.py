"""Judgement lists of OpenSearch's Search Relevance Workbench, as it imports and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.core.files import json_text
from harness.core.qrels import Qrels
from harness.core.records import Query
from harness.corpus.exchange.judged import Collector, Ratings, rows_of
from harness.corpus.exchange.rank_eval import listed, within

KEY = "judgmentRatings"


def read(path: Path) -> Ratings:
    """Read the ratings of each query; a rating may be a number or its text, such as ``3.000``.

    Raises:
        BadFile: the file is not a judgement list, or a grade is not an integer.
    """
    collector = Collector(path)
    for at, row in enumerate(listed(path, KEY)):
        place = f"{KEY}[{at}]"
        query_id = collector.add_query(str(row.get("query", "")), place)
        for number, rated in enumerate(within(collector, place, row)):
            inside = f"{place}.ratings[{number}]"
            collector.add_grade(query_id, str(rated.get("docId", "")), rated.get("rating"), inside)
    return collector.done()


def text(queries: Sequence[Query], qrels: Qrels, name: str) -> str:
    """Write the body of ``PUT _plugins/_search_relevance/judgments``."""
    rows = [
        {
            "query": query.text,
            "ratings": [{"docId": doc_id, "rating": str(grade)} for doc_id, grade in judged],
        }
        for query, judged in rows_of(qrels, queries)
    ]
    return json_text({
        "name": name,
        "description": f"Judgements of {name}",
        "type": "IMPORT_JUDGMENT",
        KEY: rows,
    })
