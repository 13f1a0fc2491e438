"""A folder as BEIR lays it out: corpus.jsonl, queries.jsonl and qrels/<split>.tsv."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import BadFile, UnknownName
from harness.core.names import checked
from harness.core.qrels import Qrels
from harness.core.reading import numbered
from harness.core.records import FIELDS, Document, Judgement, Query
from harness.corpus import jsonl, trec
from harness.corpus.cells import columns
from harness.corpus.lines import SPACES, checked_id, either


@dataclass(frozen=True, slots=True)
class Beir:
    """One split of a BEIR folder; nothing is read before it is needed."""

    folder: Path
    split: str
    fields: tuple[str, ...] = FIELDS
    """Parts of a document that are searched; the others are taken out."""

    def documents(self) -> Iterator[Document]:
        """Yield the corpus (``harness.corpus.jsonl.documents``)."""
        title, text = (name in self.fields for name in FIELDS)
        for found in jsonl.documents(either(self.folder, "corpus.jsonl")):
            yield replace(found, title=found.title * title, text=found.text * text)

    def queries(self) -> tuple[Query, ...]:
        """Read the queries of all splits; a BEIR folder keeps them in one file."""
        return tuple(jsonl.queries(either(self.folder, "queries.jsonl")))

    def qrels(self) -> Qrels:
        """Read the judgements of the split.

        Raises:
            BadName: no split can be called so.
            BadFile: the split is missing (the message names the existing ones), or ``qrels``
                refuses the file.
        """
        path = self.folder / "qrels" / f"{checked('a split', self.split)}.tsv"
        if not path.exists():
            there = sorted(file.stem for file in path.parent.glob("*.tsv"))
            hint = f"Choose one of: {', '.join(there)}." if there else "Check the folder."
            raise BadFile(path, f"unknown split {self.split!r}", hint)
        return qrels(path)


def fields(given: str) -> tuple[str, ...]:
    """Read names of fields with commas between; they come back in the order of ``FIELDS``.

    Raises:
        UnknownName: one is not among ``FIELDS``, or there is none.
    """
    named = [name.strip() for name in given.split(",")]
    for name in named:
        if name not in FIELDS:
            raise UnknownName("field of a document", name, FIELDS)
    return tuple(name for name in FIELDS if name in named)


def qrels(path: Path) -> Qrels:
    """Read ``query<TAB>document<TAB>grade`` lines, or columns by the names in a head.

    The first line is a head if it names the three columns, in any order and beside others, or if
    its third column is the name of a grade.

    Raises:
        BadFile: a column is missing, a grade is not an integer, a pair is judged twice, or the file
            has no judgement.
    """
    return trec.collect(path, _judgements(path))


def _judgements(path: Path) -> Iterator[tuple[int, Judgement]]:
    at: tuple[int, ...] | None = None
    width = len(Judgement._fields)
    for number, line in numbered(path):
        cells = [cell.strip(SPACES) for cell in line.split("\t")]
        if at is None:
            at = columns.places(cells, (columns.QUERY, columns.DOCUMENT, columns.GRADE))
            if at or columns.plain(cells[-1]) in columns.GRADE:
                at, width = at or (0, 1, 2), len(cells)
                continue
            at = (0, 1, 2)
        if len(cells) != width or width < len(Judgement._fields):
            problem = f"the line has {len(cells)} columns, not {max(width, len(Judgement._fields))}"
            raise BadFile(path, problem, "Write: query<TAB>document<TAB>grade.", number)
        query_id, doc_id, grade = (cells[place] for place in at)
        checked_id(path, number, "query", query_id)
        checked_id(path, number, "document", doc_id)
        yield number, Judgement(query_id, doc_id, trec.grade(path, number, grade))
