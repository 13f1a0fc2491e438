"""Every format of other tools by its name: how its ratings are read, and how data are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DatasetError, UnknownName
from harness.core.files import replacing, write_text
from harness.core.qrels import Qrels
from harness.core.records import Document, Query
from harness.corpus import jsonl, trec
from harness.corpus.exchange import ltr, opensearch, quepid, rank_eval
from harness.corpus.exchange.judged import Ratings

BREAKS = re.compile(r"[\t\r\n]+")


@dataclass(frozen=True, slots=True)
class Data:
    """A data set to be written."""

    name: str
    documents: Callable[[], Iterator[Document]]
    queries: tuple[Query, ...]
    qrels: Qrels


@dataclass(frozen=True, slots=True)
class Rated:
    """A format that holds ratings alone, in one file."""

    file: str
    text: Callable[[Data], str]
    read: Callable[[Path, str], Ratings]
    """Reads a file; the text is the key of a query's text, where one is named."""

    def write(self, to: Path, data: Data) -> None:
        """Write the file into a folder."""
        write_text(to / self.file, self.text(data))


RATED: Mapping[str, Rated] = {
    "quepid": Rated(
        "ratings.csv",
        lambda data: quepid.text(_distinct(data), data.qrels),
        lambda path, _: quepid.read(path),
    ),
    "rank-eval": Rated(
        "rank_eval.json",
        lambda data: rank_eval.text(data.queries, data.qrels, data.name.lower()),
        rank_eval.read,
    ),
    "opensearch": Rated(
        "judgments.json",
        lambda data: opensearch.text(_distinct(data), data.qrels, data.name),
        lambda path, _: opensearch.read(path),
    ),
    "ltr": Rated(
        "judgements.txt",
        lambda data: ltr.text(data.queries, data.qrels),
        lambda path, _: ltr.read(path),
    ),
}


def _trec(to: Path, data: Data) -> None:
    _documents(to / "corpus.jsonl", data, "doc_id")
    write_text(to / "topics.tsv", _table((query.query_id, query.text) for query in data.queries))
    trec.write_qrels(to / "qrels.trec", data.qrels)


def _beir(to: Path, data: Data) -> None:
    _documents(to / "corpus.jsonl", data, "_id")
    write_text(to / "queries.jsonl", jsonl.queries_text(data.queries, "_id"))
    (to / "qrels").mkdir(exist_ok=True)
    rows = ((query_id, doc_id, str(grade)) for query_id, doc_id, grade in data.qrels.rows())
    head = ("query-id", "corpus-id", "score")
    write_text(to / "qrels" / "test.tsv", _table((head, *rows)))


def _ir_datasets(to: Path, data: Data) -> None:
    with replacing(to / "docs.tsv") as beside, beside.open("w", encoding="utf-8") as out:
        for document in data.documents():
            whole = " ".join(part for part in (document.title, document.text) if part)
            out.write(_table([(document.doc_id, whole)]))
    write_text(to / "queries.tsv", _table((query.query_id, query.text) for query in data.queries))
    trec.write_qrels(to / "qrels.trec", data.qrels)


WRITE: Mapping[str, Callable[[Path, Data], None]] = {
    "beir": _beir,
    "trec": _trec,
    "ir-datasets": _ir_datasets,
    **{name: rated.write for name, rated in RATED.items()},
}
"""Writes the files of a format into a folder."""


def reader(name: str) -> Callable[[Path, str], Ratings]:
    """Give what reads the ratings of a format.

    Raises:
        UnknownName: no format has the name.
    """
    if name not in RATED:
        raise UnknownName("format of ratings", name, RATED)
    return RATED[name].read


def writer(name: str) -> Callable[[Path, Data], None]:
    """Give what writes a data set in a format.

    Raises:
        UnknownName: no format has the name.
    """
    if name not in WRITE:
        raise UnknownName("format", name, WRITE)
    return WRITE[name]


def _documents(path: Path, data: Data, key: str) -> None:
    with replacing(path) as beside:
        jsonl.write_documents(beside, data.documents(), key)


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join("\t".join(BREAKS.sub(" ", cell) for cell in row) + "\n" for row in rows)


def _distinct(data: Data) -> tuple[Query, ...]:
    """Give the queries of a format that names them by their text.

    Raises:
        DatasetError: two judged queries have the same text.
    """
    seen: dict[str, str] = {}
    for query in data.queries:
        if query.query_id in data.qrels.grades:
            other = seen.setdefault(query.text, query.query_id)
            if other != query.query_id:
                raise DatasetError(
                    f"{data.name}: the queries {other} and {query.query_id} have the same text,"
                    " and this format knows queries by it; use rank-eval, ltr, trec or beir"
                )
    return data.queries
