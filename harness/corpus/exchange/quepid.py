"""Ratings of a Quepid case: a table with the columns ``query``, ``docid`` and ``rating``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.core.cells import FORMULA
from harness.core.errors import BadFile
from harness.core.formats import csv_row
from harness.core.qrels import Qrels
from harness.core.reading import Malformed, numbered
from harness.core.records import Query
from harness.corpus.cells import columns
from harness.corpus.exchange.judged import Collector, Ratings, rows_of

NAMES = {
    "query": frozenset({"query", "querytext"}),
    "docid": frozenset({"docid"}),
    "rating": frozenset({"rating", "grade"}),
}
"""Columns, and what a detailed export and older ones call them."""
LONGEST = 1 << 17
"""Characters of a row whose quote is still open."""
BREAK = re.compile(r"[\r\n]+")


def read(path: Path) -> Ratings:
    """Read a case's ratings; further columns are passed over.

    A row that ends with its query, or has neither document nor rating, is a query without ratings.
    A quoted cell may hold line breaks. The space before a cell that would be a formula is taken
    away.

    Raises:
        BadFile: a column is missing, a row is cut off, or a grade is not an integer.
    """
    collector = Collector(path)
    found: tuple[int, ...] = ()
    for number, cells in _rows(path):
        if not found:
            found = _columns(path, number, cells)
            continue
        query, *_ = found
        said, doc_id, rating = (cells[at].strip() if at < len(cells) else None for at in found)
        if said is None or (rating is None and doc_id):
            problem = f"the row has {len(cells)} cells, too few for its columns"
            raise BadFile(path, problem, "Complete the row, or export the case again.", number)
        query_id = collector.add_query(_plain(cells[query]), number)
        if doc_id or rating:
            collector.add_grade(query_id, doc_id or "", rating, number)
    return collector.done()


def text(queries: Sequence[Query], qrels: Qrels) -> str:
    """Write the judged queries as the table that Quepid imports."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(NAMES)
    for query, judged in rows_of(qrels, queries):
        said = BREAK.sub(" ", query.text)
        writer.writerows((_safe(said), _safe(doc_id), grade) for doc_id, grade in judged)
    return out.getvalue()


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of its first line; the head tells what separates cells."""
    comma, begun, number = "", "", 0
    for at, line in numbered(path):
        comma = comma or max(",;\t", key=line.count)
        number, begun = (number, f"{begun}\n{line}") if begun else (at, line)
        try:
            cells = csv_row(begun, comma)
        except Malformed as exc:
            if begun.count('"') % 2 and len(begun) <= LONGEST:
                continue
            raise _not_csv(path, number, str(exc)) from exc
        begun = ""
        yield number, cells
    if begun:
        raise _not_csv(path, number, "a quote is open at the end")


def _not_csv(path: Path, number: int, why: str) -> BadFile:
    return BadFile(path, f"the row is not CSV ({why})", "Close the quote.", number)


def _columns(path: Path, number: int, head: list[str]) -> tuple[int, ...]:
    for column, names in NAMES.items():
        if columns.places(head, [names]) is None:
            problem = f"no one column {column} (columns: {', '.join(head)})"
            raise BadFile(path, problem, f"Head it with: {','.join(NAMES)}.", number)
    return columns.places(head, [*NAMES.values()]) or ()


def _plain(cell: str) -> str:
    return cell[1:] if cell[:1] == " " and cell[1:].startswith(FORMULA) else cell


def _safe(cell: str) -> str:
    """Put a space before what a spreadsheet would run, as Quepid does."""
    return f" {cell}" if cell.startswith(FORMULA) else cell
