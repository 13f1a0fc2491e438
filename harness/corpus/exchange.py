"""Formats of other tools: Quepid, rank_eval, BEIR and TREC."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from harness.core.errors import BadFile, DatasetError, UnknownName
from harness.core.files import replacing, write_json, write_text
from harness.core.formats import FORMULA, json_file
from harness.core.reading import numbered
from harness.core.records import Document, Judgement, Qrels, Query
from harness.corpus import beir, cells, trec
from harness.corpus.trec import UNCARRIED

At = int | str
"""Where a fault is: the number of a line, or a place inside a file of JSON."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Queries in the order of the file, and their judgements."""

    queries: tuple[Query, ...]
    qrels: Qrels
    unrated: int


@dataclass(slots=True)
class Collector:
    """Collects queries and grades of one file, and names the place of what is wrong."""

    path: Path
    _queries: dict[str, Query] = field(default_factory=dict)
    _judged: dict[tuple[str, str], At] = field(default_factory=dict)
    _kept: list[Judgement] = field(default_factory=list)
    _unrated: int = 0

    def add_query(self, text: str, at: At, query_id: str = "") -> str:
        """Note a query; give its id, which is made of its text where the file has none."""
        if not text.strip():
            raise self.wrong(at, "the query has no text", "Give it one, or remove it.")
        given = _encoded(query_id, UNCARRIED) if query_id else id_of(text)
        if self._queries.setdefault(given, Query(given, text)).text != text:
            problem = f"the query {given!r} has another text already"
            raise self.wrong(at, problem, "Give every query its own id.")
        return given

    def add_grade(self, query_id: str, doc_id: str, grade: object, at: At) -> None:
        """Note a grade; None and an empty text are a pair that was not rated."""
        if not doc_id or any(one in UNCARRIED for one in doc_id):
            problem = f"the document id {doc_id!r} is empty or holds white space or a NUL"
            raise self.wrong(at, problem, "Use ids that a TREC file can carry.")
        if grade is None or grade == "":
            self._unrated += 1
            return
        pair = query_id, doc_id
        if pair in self._judged:
            problem = f"{doc_id} is rated for query {query_id!r} at {self._judged[pair]} already"
            raise self.wrong(at, problem, "Keep one of the two.")
        self._judged[pair] = at
        whole = cells.whole(grade)
        if whole is None:
            raise self.wrong(at, cells.problem(grade), cells.HINT)
        self._kept.append(Judgement(*pair, whole))

    def done(self) -> Ratings:
        """Return what was collected."""
        if not self._kept:
            raise BadFile(self.path, "it holds no rating", "Rate some documents, and export again.")
        return Ratings(tuple(self._queries.values()), Qrels.of(self._kept), self._unrated)

    def wrong(self, at: At, problem: str, hint: str) -> BadFile:
        """Return the error of a place."""
        if isinstance(at, int):
            return BadFile(self.path, problem, hint, at)
        return BadFile(self.path, f"{at}: {problem}", hint)


def id_of(text: str) -> str:
    """Make an id of a text, in which white space stands as ``%20``: other texts have other ids."""
    return _encoded(text, UNCARRIED + "%")


def _encoded(text: str, which: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in which else one for one in text)


def rows_of(qrels: Qrels, queries: Sequence[Query]) -> list[tuple[Query, list[tuple[str, int]]]]:
    """Return each judged query with its documents and grades, in the order of the queries."""
    return [
        (query, [*qrels.grades[query.query_id].items()])
        for query in queries
        if query.query_id in qrels.grades
    ]


@dataclass(frozen=True, slots=True)
class Data:
    """A data set to be written."""

    name: str
    documents: Callable[[], Iterator[Document]]
    queries: tuple[Query, ...]
    qrels: Qrels


NAMES = {
    "query": frozenset({"query", "querytext"}),
    "docid": frozenset({"docid"}),
    "rating": frozenset({"rating", "grade"}),
}
BREAK = re.compile(r"[\r\n]+")


def read_quepid(path: Path) -> Ratings:
    """Read a case's ratings; a query without document and rating is one without ratings."""
    collector = Collector(path)
    at: tuple[int, ...] | None = None
    for number, row in _rows(path):
        if at is None:
            at = cells.places(row, [*NAMES.values()])
            if at is None:
                problem = f"no one column each of {', '.join(NAMES)} (columns: {', '.join(row)})"
                raise BadFile(path, problem, f"Head it with: {','.join(NAMES)}.", number)
            continue
        said, doc_id, rating = (row[one].strip() if one < len(row) else None for one in at)
        if said is None or (rating is None and doc_id):
            problem = f"the row has {len(row)} cells, too few for its columns"
            raise BadFile(path, problem, "Complete the row, or export the case again.", number)
        text = row[at[0]]
        plain = text[1:] if text[:1] == " " and text[1:].startswith(FORMULA) else text
        query_id = collector.add_query(plain, number)
        if doc_id or rating:
            collector.add_grade(query_id, doc_id or "", rating, number)
    return collector.done()


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of its first line; the head tells what separates cells."""
    source = numbered(path)
    head = next(source, (1, ""))
    taken: list[int] = []

    def lines() -> Iterator[str]:
        for at, line in chain([head], source):
            taken.append(at)
            yield f"{line}\n"

    comma = max(",;\t", key=head[1].count)
    try:
        for row in csv.reader(lines(), delimiter=comma, strict=True):
            yield taken[0], row
            taken.clear()
    except csv.Error as exc:
        raise BadFile(path, f"the row is not CSV ({exc})", "Close the quote.", taken[0]) from exc


def _quepid(to: Path, data: Data) -> None:
    """Write the judged queries as the table that Quepid imports, which knows them by their text."""
    seen: dict[str, str] = {}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(NAMES)
    for query, judged in rows_of(data.qrels, data.queries):
        other = seen.setdefault(query.text, query.query_id)
        if other != query.query_id:
            raise DatasetError(
                f"{data.name}: the queries {other} and {query.query_id} have the same text,"
                " and this format knows queries by it; use rank-eval, trec or beir"
            )
        said = BREAK.sub(" ", query.text)
        writer.writerows((_safe(said), _safe(doc_id), grade) for doc_id, grade in judged)
    write_text(to / "ratings.csv", out.getvalue())


def _safe(cell: str) -> str:
    """Insert a space before what a spreadsheet would run, as Quepid does."""
    return f" {cell}" if cell.startswith(FORMULA) else cell


TEXT = "query_string"
TEMPLATE = "search"
MATCHES = ("match", "match_phrase", "match_bool_prefix", "match_phrase_prefix")
"""Clauses that name a field, and then its words or an object with ``query``."""


def read_rank_eval(path: Path, text: str = "") -> Ratings:
    """Read the rated documents of each request; ``text`` is the key of the query's text."""
    collector = Collector(path)
    for at, request in enumerate(_requests(path)):
        place = f"requests[{at}]"
        named = request.get("id")
        if not isinstance(named, str):
            raise collector.wrong(place, "has no id", 'Write "id" as a text.')
        found = sorted({*_texts(request, text)})
        if len(found) != 1:
            problem = f"its text is one of {found}" if found else "no text is searched for in it"
            hint = "Name the key that holds the text of the query: --text KEY."
            raise collector.wrong(place, problem, hint)
        query_id = collector.add_query(found[0], place, named)
        ratings = request.get("ratings")
        if not isinstance(ratings, list) or not all(isinstance(one, dict) for one in ratings):
            raise collector.wrong(place, "has no list of ratings", 'Write "ratings": [{...}].')
        for row, rated in enumerate(ratings):
            inside = f"{place}.ratings[{row}]"
            collector.add_grade(query_id, str(rated.get("_id", "")), rated.get("rating"), inside)
    return collector.done()


def _rank_eval(to: Path, data: Data) -> None:
    """Write a request that can be sent as it is, where documents have a title and a text."""
    fields = {"query": f"{{{{{TEXT}}}}}", "fields": ["title", "text"]}
    template = {"source": {"query": {"multi_match": fields}}}
    index = data.name.lower()
    requests = [
        {
            "id": query.query_id,
            "template_id": TEMPLATE,
            "params": {TEXT: query.text},
            "ratings": [
                {"_index": index, "_id": doc_id, "rating": max(0, grade)}
                for doc_id, grade in judged
            ],
        }
        for query, judged in rows_of(data.qrels, data.queries)
    ]
    body = {
        "templates": [{"id": TEMPLATE, "template": template}],
        "requests": requests,
        "metric": {"dcg": {"k": 10, "normalize": True}},
    }
    write_json(to / "rank_eval.json", body)


def _requests(path: Path) -> list[dict[str, Any]]:
    """Read the requests of a body."""
    found = json_file(path)
    rows = found.get("requests") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadFile(path, "no list of objects 'requests'", "Give the body of the request.")
    return rows


def _texts(request: dict[str, Any], key: str) -> Iterator[str]:
    """Return the texts under a key, else all that the parameters or the search ask for."""
    if key:
        yield from _strings(node.get(key) for node in _objects(request))
        return
    params = request.get("params")
    yield from _strings(params.values() if isinstance(params, dict) else ())
    for node in _objects(request.get("request")):
        yield from _strings([node.get("query")])
        for name in MATCHES:
            clause = node.get(name)
            yield from _strings(clause.values() if isinstance(clause, dict) else ())


def _objects(found: object) -> Iterator[dict[str, Any]]:
    """Return every object inside a value, at any depth."""
    if isinstance(found, dict):
        yield found
    if isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _objects(one)


def _strings(found: Iterable[object]) -> Iterator[str]:
    return (one for one in found if isinstance(one, str))


BREAKS = re.compile(r"[\t\r\n]+")


def _trec(to: Path, data: Data) -> None:
    _documents(to / "corpus.jsonl", data, "doc_id")
    write_text(to / "topics.tsv", _table((query.query_id, query.text) for query in data.queries))
    trec.write_qrels(to / "qrels.trec", data.qrels)


def _beir(to: Path, data: Data) -> None:
    _documents(to / "corpus.jsonl", data, "_id")
    write_text(to / "queries.jsonl", beir.queries_text(data.queries, "_id"))
    (to / "qrels").mkdir(exist_ok=True)
    rows = ((query_id, doc_id, str(grade)) for query_id, doc_id, grade in data.qrels.rows())
    head = ("query-id", "corpus-id", "score")
    write_text(to / "qrels" / "test.tsv", _table((head, *rows)))


READ: Mapping[str, Callable[[Path, str], Ratings]] = {
    "quepid": lambda path, _: read_quepid(path),
    "rank-eval": read_rank_eval,
}
"""By format; the text is the key of a query's text, where one is named."""
WRITE: Mapping[str, Callable[[Path, Data], None]] = {
    "beir": _beir,
    "trec": _trec,
    "quepid": _quepid,
    "rank-eval": _rank_eval,
}


def reader(name: str) -> Callable[[Path, str], Ratings]:
    """Return what reads the ratings of a format."""
    if name not in READ:
        raise UnknownName("format of ratings", name, READ)
    return READ[name]


def writer(name: str) -> Callable[[Path, Data], None]:
    """Return what writes a data set in a format."""
    if name not in WRITE:
        raise UnknownName("format", name, WRITE)
    return WRITE[name]


def _documents(path: Path, data: Data, key: str) -> None:
    with replacing(path) as beside:
        beir.write_documents(beside, data.documents(), key)


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join("\t".join(BREAKS.sub(" ", cell) for cell in row) + "\n" for row in rows)
