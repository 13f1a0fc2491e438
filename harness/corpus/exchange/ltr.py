"""Judgement lists of the learning-to-rank plugins: ``3 qid:1 # doc``, as Quepid writes them too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core.errors import BadFile
from harness.core.qrels import Qrels
from harness.core.reading import numbered
from harness.core.records import Query
from harness.corpus.exchange.judged import Collector, Ratings, rows_of

HEAD = re.compile(r"#\s*qid:(\S+):\s*(.*\S)\s*", re.ASCII)
WEIGHTED = re.compile(r"(.*\S)\s*\*\s*[0-9]+(?:\.[0-9]+)?", re.ASCII)
"""A text of the head with its weight."""
ROW = re.compile(r"\s*(\S+)\s+qid:(\S+)\s+(?:[^#\s]\S*\s+)*#\s*(\S+)(?:\s+(.*\S))?\s*", re.ASCII)


def read(path: Path) -> Ratings:
    """Read grades; the text of a query is in the head, else it follows each document.

    Values of features are passed over, and so are the weights of queries that hello-ltr writes
    behind the texts (``kettle*1``).

    Raises:
        BadFile: a line is cut off, a query has no text or two, or a grade is not an integer. Or
            some texts of the head end as a weight does and others do not.
    """
    collector = Collector(path)
    heads: dict[str, tuple[int, str]] = {}
    texts: dict[str, str] | None = None
    for number, line in numbered(path):
        if head := HEAD.fullmatch(line):
            heads[head[1]] = number, head[2]
        elif not line.lstrip().startswith("#"):
            row = ROW.fullmatch(line)
            if row is None:
                problem = "the line is not: grade qid:ID # document"
                raise BadFile(path, problem, "Complete the line, or export again.", number)
            grade, qid, doc_id, rest = row.groups()
            texts = _without_weights(path, heads) if texts is None else texts
            query_id = collector.add_query(texts.get(qid, rest or ""), number, qid)
            collector.add_grade(query_id, doc_id, grade, number)
    return collector.done()


def _without_weights(path: Path, heads: Mapping[str, tuple[int, str]]) -> dict[str, str]:
    """Give the texts of the head by query, without weights."""
    found = {qid: WEIGHTED.fullmatch(said) for qid, (_, said) in heads.items()}
    weighted = [qid for qid, match in found.items() if match]
    if weighted and len(weighted) < len(heads):
        number, said = heads[weighted[0]]
        problem = f"the text {said!r} ends as a weight does, and other texts do not"
        raise BadFile(path, problem, "Give each text a weight (TEXT*1), or none.", number)
    return {qid: match[1] if (match := found[qid]) else said for qid, (_, said) in heads.items()}


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
