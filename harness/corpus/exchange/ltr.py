"""Judgement lists of the learning-to-rank plugins: ``3 qid:1 # doc``, as Quepid writes them too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.core.errors import BadFile
from harness.core.qrels import Qrels
from harness.core.reading import numbered
from harness.core.records import Query
from harness.corpus.exchange.judged import Collector, Ratings, rows_of

HEAD = re.compile(r"#\s*qid:(\S+):\s*(.*\S)\s*", re.ASCII)
ROW = re.compile(r"\s*(\S+)\s+qid:(\S+)\s+(?:[^#\s]\S*\s+)*#\s*(\S+)(?:\s+(.*\S))?\s*", re.ASCII)


def read(path: Path) -> Ratings:
    """Read grades; the text of a query is in the head, else it follows each document.

    Values of features are passed over.

    Raises:
        BadFile: a line is cut off, a query has no text or two, or a grade is not an integer.
    """
    collector = Collector(path)
    heads: dict[str, str] = {}
    for number, line in numbered(path):
        if head := HEAD.fullmatch(line):
            heads[head[1]] = head[2]
        elif not line.lstrip().startswith("#"):
            row = ROW.fullmatch(line)
            if row is None:
                problem = "the line is not: grade qid:ID # document"
                raise BadFile(path, problem, "Complete the line, or export again.", number)
            grade, qid, doc_id, rest = row.groups()
            query_id = collector.add_query(heads.get(qid, rest or ""), number, qid)
            collector.add_grade(query_id, doc_id, grade, number)
    return collector.done()


def text(queries: Sequence[Query], qrels: Qrels) -> str:
    """Write the texts as a head, and below it a line a judgement."""
    found = rows_of(qrels, queries)
    head = [f"# qid:{query.query_id}: {' '.join(query.text.split())}\n" for query, _ in found]
    rows = [
        f"{grade} qid:{query.query_id} # {doc_id}\n"
        for query, judged in found
        for doc_id, grade in judged
    ]
    return "".join((*head, "#\n", *rows))
