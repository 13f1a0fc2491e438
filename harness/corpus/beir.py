"""A folder as BEIR lays it out, and documents and queries as JSON lines."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import BadFile, UnknownName
from harness.core.formats import json_of
from harness.core.names import checked
from harness.core.reading import Malformed, numbered
from harness.core.records import FIELDS, Document, Drawn, Judgement, Qrels, Query, Scalar
from harness.core.store import StrictModel, bad
from harness.corpus import cells, trec
from harness.corpus.judgements import read_pool, texts_path
from harness.corpus.trec import SPACES, check_once, checked_id, either

JsonObject = dict[str, Any]
HINT = 'Write one object a line, such as {"_id": "1", "text": "..."}.'


class _Line(BaseModel):
    """An object on a line; BEIR calls its id ``_id``."""

    model_config = ConfigDict(strict=True)


class DocumentLine(_Line):
    """A document; every other key joins its metadata."""

    model_config = ConfigDict(strict=True, extra="allow")
    id: str = Field(validation_alias=AliasChoices("doc_id", "_id"))
    text: str
    title: str | None = None
    metadata: JsonObject | None = None


class DrawnLine(StrictModel):
    """How a query was drawn, as ``harness queries from-log`` writes it."""

    stratum: str
    inclusion: Annotated[float, Field(gt=0, le=1)]
    requests: Annotated[int, Field(gt=0)]


class QueryLine(_Line):
    """A query; other keys are passed over."""

    id: str = Field(validation_alias=AliasChoices("query_id", "_id"))
    text: str
    slices: list[str] | None = None
    intent: str | None = None
    params: dict[str, Scalar] | None = None
    drawn: DrawnLine | None = None


Line = TypeVar("Line", DocumentLine, QueryLine)


def documents(path: Path) -> Iterator[Document]:
    """Yield documents in file order.

    A line is an object with ``doc_id`` (or BEIR's ``_id``), ``text``, and where there are such
    ``title`` and ``metadata``; every other key joins the metadata. A metadata value that is not
    a scalar is kept as its JSON text.
    """
    for found in _read(path, DocumentLine, "document"):
        rest = {key: value for key, value in (found.model_extra or {}).items() if key != "_id"}
        given = {**rest, **(found.metadata or {})}
        metadata = {key: _scalar(value) for key, value in given.items()}
        yield Document(found.id, found.title or "", found.text, metadata)


def queries(path: Path) -> Iterator[Query]:
    """Yield queries in file order.

    A line is an object with ``query_id`` (or BEIR's ``_id``), ``text``, and where there are such
    ``slices`` (a list of names), ``intent`` and ``params`` (an object of scalars). ``drawn`` is as
    ``harness queries from-log`` writes it. Other keys are passed over.
    """
    for found in _read(path, QueryLine, "query"):
        drawn = Drawn(**found.drawn.model_dump()) if found.drawn else None
        slices, params = tuple(found.slices or ()), found.params or {}
        yield Query(found.id, found.text, slices, found.intent, params, drawn)


def _read(path: Path, kind: type[Line], what: str) -> Iterator[Line]:
    """Read objects that have ids of their own, one a line."""
    seen: dict[object, int] = {}
    for number, line in numbered(path):
        try:
            found = kind.model_validate(json_of(line))
        except Malformed as exc:
            raise BadFile(path, f"it is not JSON ({exc})", HINT, number) from exc
        except ValidationError as exc:
            raise bad(path, "", exc, HINT, number) from exc
        checked_id(path, number, what, found.id)
        check_once(path, number, seen, found.id, f"the id {found.id!r} is")
        yield found
    if not seen:
        raise BadFile(path, f"it holds no {what}", HINT)


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def write_documents(path: Path, found: Iterable[Document], key: str = "doc_id") -> None:
    """Write one object a line, its id under ``key``; the same documents give the same bytes."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in found:
            fields: JsonObject = {
                key: document.doc_id,
                "title": document.title,
                "text": document.text,
            }
            if document.metadata:
                fields["metadata"] = dict(sorted(document.metadata.items()))
            out.write(_line(fields))


def write_queries(path: Path, found: Iterable[Query]) -> None:
    """Write one object a line; the same queries give the same bytes."""
    path.write_text(queries_text(found), encoding="utf-8", newline="\n")


def queries_text(found: Iterable[Query], key: str = "query_id") -> str:
    """Return the lines that ``write_queries`` writes, the id under ``key``."""
    return "".join(_line(_query_fields(query, key)) for query in found)


def _query_fields(query: Query, key: str) -> JsonObject:
    fields: JsonObject = {key: query.query_id, "text": query.text}
    if query.slices:
        fields["slices"] = list(query.slices)
    if query.intent is not None:
        fields["intent"] = query.intent
    if query.params:
        fields["params"] = dict(sorted(query.params.items()))
    if query.drawn is not None:
        fields["drawn"] = query.drawn._asdict()
    return fields


def _line(fields: JsonObject) -> str:
    return json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class Beir:
    """One split of a BEIR folder; nothing is read before it is needed."""

    folder: Path
    split: str
    fields: tuple[str, ...] = FIELDS

    def documents(self) -> Iterator[Document]:
        """Yield the corpus (``harness.corpus.beir.documents``)."""
        title, text = (name in self.fields for name in FIELDS)
        for found in documents(either(self.folder, "corpus.jsonl")):
            yield replace(found, title=found.title * title, text=found.text * text)

    def queries(self) -> tuple[Query, ...]:
        """Read the queries of all splits; a BEIR folder keeps them in one file."""
        return tuple(queries(either(self.folder, "queries.jsonl")))

    def qrels(self) -> Qrels:
        """Read the judgements of the split, or a pool ``SPLIT.qrels`` as far as it is judged.

        Nothing is judged where the folder has no folder ``qrels``.
        """
        path = self.folder / "qrels" / f"{checked('a split', self.split)}.tsv"
        pool = path.with_suffix(".qrels")
        if not path.exists() and texts_path(pool).is_file():
            return Qrels.of(read_pool(pool).judgements)
        if not path.parent.exists():
            return Qrels({})
        if not path.exists():
            there = sorted(file.stem for file in path.parent.glob("*.tsv"))
            hint = f"Choose one of: {', '.join(there)}." if there else "Check the folder."
            raise BadFile(path, f"unknown split {self.split!r}", hint)
        return qrels(path)


def fields(given: str) -> tuple[str, ...]:
    """Read names of fields with commas between; they come back in the order of ``FIELDS``."""
    named = [name.strip() for name in given.split(",")]
    for name in named:
        if name not in FIELDS:
            raise UnknownName("field of a document", name, FIELDS)
    return tuple(name for name in FIELDS if name in named)


def qrels(path: Path) -> Qrels:
    """Read ``query<TAB>document<TAB>grade`` lines, or columns by the names in a head.

    The first line is a head if it names the three columns, in any order and beside others, or if
    its third column is the name of a grade.
    """
    return trec.collect(path, _judgements(path))


def _judgements(path: Path) -> Iterator[tuple[int, Judgement]]:
    at: tuple[int, ...] = ()
    width = len(Judgement._fields)
    for number, line in numbered(path):
        row = [cell.strip(SPACES) for cell in line.split("\t")]
        if not at:
            named = cells.places(row, (cells.QUERY, cells.DOCUMENT, cells.GRADE_COLUMNS))
            at = named or (0, 1, 2)
            if named or cells.plain(row[-1]) in cells.GRADE_COLUMNS:
                width = len(row)
                continue
        if len(row) != width or width < len(Judgement._fields):
            problem = f"the line has {len(row)} columns, not {max(width, len(Judgement._fields))}"
            raise BadFile(path, problem, "Write: query<TAB>document<TAB>grade.", number)
        query_id, doc_id, grade = (row[place] for place in at)
        checked_id(path, number, "query", query_id)
        checked_id(path, number, "document", doc_id)
        yield number, Judgement(query_id, doc_id, trec.grade(path, number, grade))
