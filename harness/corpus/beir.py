"""A folder as BEIR lays it out, and documents and queries as JSON lines."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from harness.core import digest
from harness.core.errors import BadFile, UnknownName
from harness.core.formats import json_of
from harness.core.names import checked
from harness.core.reading import Malformed, numbered
from harness.core.records import FIELDS, Document, Drawn, Judgement, Qrels, Query, Scalar
from harness.corpus import cells, trec
from harness.corpus.judgements import read_pool, texts_path
from harness.corpus.trec import SPACES, checked_id, either

JsonObject = dict[str, Any]


def documents(path: Path) -> Iterator[Document]:
    """Yield documents in file order.

    A line is an object with ``doc_id`` (or BEIR's ``_id``), ``text``, and where there are such
    ``title`` and ``metadata``; every other key joins the metadata. A metadata value that is not
    a scalar is kept as its JSON text.
    """
    seen: dict[str, int] = {}
    for number, found in _objects(path):
        doc_id = _id(path, number, found, ("doc_id", "_id"), seen)
        title = _text(path, number, found, "title") if found.get("title") is not None else ""
        text = _text(path, number, found, "text")
        inner = found.get("metadata") or {}
        if not isinstance(inner, dict):
            raise _wrong(path, number, "metadata", "an object", inner)
        rest = {k: v for k, v in found.items() if k not in _DOCUMENT_KEYS}
        metadata = {key: _scalar(value) for key, value in {**rest, **inner}.items()}
        yield Document(doc_id, title, text, metadata)
    if not seen:
        raise BadFile(path, "it holds no document", "Write one JSON object a line.")


def queries(path: Path) -> Iterator[Query]:
    """Yield queries in file order.

    A line is an object with ``query_id`` (or BEIR's ``_id``), ``text``, and where there are such
    ``slices`` (a list of names), ``intent`` and ``params`` (an object of scalars). ``drawn`` is as
    ``harness queries from-log`` writes it. Other keys are passed over.
    """
    seen: dict[str, int] = {}
    for number, found in _objects(path):
        query_id = _id(path, number, found, ("query_id", "_id"), seen)
        slices = found.get("slices") or []
        if not (isinstance(slices, list) and all(isinstance(name, str) for name in slices)):
            raise _wrong(path, number, "slices", "a list of strings", slices)
        intent = _text(path, number, found, "intent") if found.get("intent") is not None else None
        params = found.get("params") or {}
        if not (isinstance(params, dict) and all(map(_is_scalar, params.values()))):
            raise _wrong(path, number, "params", "an object of scalars", params)
        text, drawn = _text(path, number, found, "text"), _drawn(path, number, found)
        yield Query(query_id, text, tuple(slices), intent, params, drawn)
    if not seen:
        raise BadFile(path, "it holds no query", "Write one JSON object a line.")


def write_documents(path: Path, found: Iterable[Document], key: str = "doc_id") -> None:
    """Write one object a line, its id under ``key``; the same documents give the same bytes."""
    sha256 = hashlib.sha256()
    with path.open("wb") as out:
        for document in found:
            fields: JsonObject = {
                key: document.doc_id,
                "title": document.title,
                "text": document.text,
            }
            if document.metadata:
                fields["metadata"] = dict(sorted(document.metadata.items()))
            line = _line(fields).encode()
            sha256.update(line)
            out.write(line)
    digest.note(path, sha256.hexdigest())


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


_DOCUMENT_KEYS = frozenset({"doc_id", "_id", "title", "text", "metadata"})


def _line(fields: JsonObject) -> str:
    return json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"


def _objects(path: Path) -> Iterator[tuple[int, JsonObject]]:
    for number, line in numbered(path):
        try:
            found = json_of(line)
        except Malformed as exc:
            hint = "Write one JSON object a line, with no line break inside."
            raise BadFile(path, f"it is not JSON ({exc})", hint, number) from exc
        if not isinstance(found, dict):
            hint = 'Write an object, for example {"doc_id": "1", "text": "..."}.'
            raise BadFile(path, f"the line is not a JSON object but {line[:40]!r}", hint, number)
        yield number, found


def _id(
    path: Path, number: int, found: JsonObject, names: tuple[str, str], seen: dict[str, int]
) -> str:
    name = next((name for name in names if name in found), names[0])
    given = checked_id(path, number, names[0].removesuffix("_id"), _text(path, number, found, name))
    if given in seen:
        problem = f"the id {given!r} is on line {seen[given]} already"
        raise BadFile(path, problem, "Give every line its own id.", number)
    seen[given] = number
    return given


def _drawn(path: Path, number: int, found: JsonObject) -> Drawn | None:
    given = found.get("drawn")
    if given is None:
        return None
    match given:
        case {
            "stratum": str(stratum),
            "inclusion": int() | float() as inclusion,
            "requests": int(requests),
        }:
            if len(given) == len(Drawn._fields) and 0 < inclusion <= 1 and requests > 0:
                return Drawn(stratum, float(inclusion), requests)
    wanted = "an object of stratum, inclusion (above 0, at most 1) and requests (above 0)"
    raise _wrong(path, number, "drawn", wanted, given)


def _text(path: Path, number: int, found: JsonObject, key: str) -> str:
    if key not in found:
        has = ", ".join(found) or "none"
        raise BadFile(path, f"missing key {key!r} (keys: {has})", f"Add {key!r}.", number)
    if not isinstance(found[key], str):
        raise _wrong(path, number, key, "a string", found[key])
    return str(found[key])


def _wrong(path: Path, number: int, key: str, wanted: str, value: object) -> BadFile:
    problem = f"{key!r} is {json.dumps(value)[:40]}, not {wanted}"
    return BadFile(path, problem, f"Write {key!r} as {wanted}.", number)


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    return value is None or isinstance(value, str | int | float | bool)


def _scalar(value: object) -> Scalar:
    if _is_scalar(value):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


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
