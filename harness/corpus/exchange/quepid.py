"""Ratings of a Quepid case: a table with the columns ``query``, ``docid`` and ``rating``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from harness.core.cells import FORMULA
from harness.core.errors import BadFile
from harness.core.formats import csv_row
from harness.core.qrels import Qrels
from harness.core.reading import Malformed, numbered
from harness.core.records import Query
from harness.corpus.exchange.judged import Collector, Ratings, rows_of

COLUMNS = ("query", "docid", "rating")
NAMES = {"querytext": "query", "grade": "rating"}
"""What a detailed export and older ones call them."""
BREAK = re.compile(r"[\r\n]+")


def read(path: Path) -> Ratings:
    """Read a case's ratings; further columns are passed over.

    A row that has only a query is a query without ratings. The space before a cell that would be
    a formula is taken away.

    Raises:
        BadFile: a column is missing, a row is cut off, or a grade is not an integer.
    """
    collector, comma = Collector(path), ","
    columns: tuple[int, ...] = ()
    for number, line in numbered(path):
        if not columns:
            comma = max(",;\t", key=line.count)
            columns = _columns(path, number, _cells(path, number, line, comma))
            continue
        cells = _cells(path, number, line, comma)
        if len(cells) == 1:
            collector.add_query(_plain(cells[0]), number)
            continue
        if len(cells) <= max(columns):
            problem = f"the row has {len(cells)} cells, too few for its columns"
            raise BadFile(path, problem, "Complete the row, or export the case again.", number)
        said, doc_id, rating = (cells[at] for at in columns)
        query_id = collector.add_query(_plain(said), number)
        collector.add_grade(query_id, doc_id.strip(), rating.strip(), number)
    return collector.done()


def text(queries: Sequence[Query], qrels: Qrels) -> str:
    """Write the judged queries as the table that Quepid imports."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for query, judged in rows_of(qrels, queries):
        said = BREAK.sub(" ", query.text)
        writer.writerows((_safe(said), _safe(doc_id), grade) for doc_id, grade in judged)
    return out.getvalue()


def _cells(path: Path, number: int, line: str, comma: str) -> list[str]:
    try:
        return csv_row(line, comma)
    except Malformed as exc:
        hint = "Close the quote; a row is one line."
        raise BadFile(path, f"the row is not CSV ({exc})", hint, number) from exc


def _columns(path: Path, number: int, head: list[str]) -> tuple[int, ...]:
    plain = ["".join(name.lower().replace("_", " ").split()) for name in head]
    names = [NAMES.get(name, name) for name in plain]
    for column in COLUMNS:
        if names.count(column) != 1:
            problem = f"no one column {column} (columns: {', '.join(head)})"
            raise BadFile(path, problem, f"Head it with: {','.join(COLUMNS)}.", number)
    return tuple(names.index(column) for column in COLUMNS)


def _plain(cell: str) -> str:
    return cell[1:] if cell[:1] == " " and cell[1:].startswith(FORMULA) else cell


def _safe(cell: str) -> str:
    """Put a space before what a spreadsheet would run, as Quepid does."""
    return f" {cell}" if cell.startswith(FORMULA) else cell
