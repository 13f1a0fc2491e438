"""Runs, judgements, collections and search functions as objects of Python."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, SupportsFloat, TypeAlias

from harness.core.errors import DatasetError, HarnessError, RunError
from harness.core.files import replacing_folder
from harness.core.names import checked
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Run
from harness.corpus import beir, cells, runs, trec
from harness.corpus.beir import Beir
from harness.corpus.cells import written_otherwise
from harness.corpus.exchange import Data, writer
from harness.corpus.trec import UNCARRIED

if TYPE_CHECKING:
    import pandas as pd


QUERY = ("query_id", "q_id", "qid", "query-id")
DOCUMENT = ("doc_id", "docno", "docid", "corpus-id")
UNFIT = frozenset(UNCARRIED)
GRADE = ("relevance", "label", "grade", "rel", "score")
"""Column names of ir_measures, ranx, PyTerrier and BEIR; the first one present counts."""


class AsDict(Protocol):
    """A run or judgements of ranx: ``to_dict`` gives values by query and document."""

    def to_dict(self) -> Mapping[str, Mapping[str, Any]]:
        """Return values by query and document."""


RunLike: TypeAlias = (
    "Run | str | Path | Mapping[str, Mapping[str, SupportsFloat]] | pd.DataFrame | AsDict"
    " | Iterable[Any]"
)
"""Everything that is accepted as a run; items are ``ir_measures.ScoredDoc`` or tuples."""
QrelsLike: TypeAlias = (
    "Qrels | str | Path | Mapping[str, Mapping[str, int]] | pd.DataFrame | AsDict | Iterable[Any]"
)
"""Everything that is accepted as judgements; items are ``ir_measures.Qrel`` or tuples."""


class DataKind(NamedTuple):
    """What is read: a run or judgements."""

    name: str
    value: str
    columns: Sequence[str]
    error: type[HarnessError]
    shapes: str
    """Accepted forms, for an error message."""


class Value(NamedTuple):
    """A value of a query and document, and its place in the input."""

    query_id: str
    doc_id: str
    value: Any
    place: str


Found = tuple[object, object, Any, str]  # query, document, value, and their place in the input


def values(given: object, kind: DataKind) -> tuple[Iterator[Value], tuple[str, ...]]:
    """Read values, and the queries without any."""
    pandas = sys.modules.get("pandas")
    empty: tuple[str, ...] = ()
    if pandas is not None and isinstance(given, pandas.DataFrame):
        rows = _of_frame(given, kind)
    elif isinstance(given, Mapping) or hasattr(given, "to_dict"):
        whole = given if isinstance(given, Mapping) else given.to_dict()
        rows = _of_mapping(whole, kind)
        empty = tuple(
            _foreign_id(query, "query", f"[{query!r}]", kind)
            for query, of in whole.items()
            if isinstance(of, Mapping) and not of
        )
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        rows = _of_items(given, kind)
    else:
        raise _shape(kind, type(given).__name__)
    return (
        Value(
            _foreign_id(query, "query", place, kind),
            _foreign_id(doc, "document", place, kind), value, place,
        )
        for query, doc, value, place in rows
    ), empty  # fmt: skip


def _of_mapping(given: Mapping[Any, Any], kind: DataKind) -> Iterator[Found]:
    for query, of in given.items():
        if not isinstance(of, Mapping):
            raise kind.error(
                f"{kind.name}[{query!r}] is a {type(of).__name__}, not a mapping of document to"
                f" {kind.value}. {kind.shapes}"
            )
        yield from ((query, doc, value, f"[{query!r}][{doc!r}]") for doc, value in of.items())


def _of_frame(frame: pd.DataFrame, kind: DataKind) -> Iterator[Found]:
    columns, named = list(frame.columns), []
    for names in (QUERY, DOCUMENT, kind.columns):
        found = next((name for name in names if columns.count(name) == 1), None)
        if found is None:
            raise kind.error(
                f"{kind.name}: the frame has the columns {', '.join(map(str, columns))}, and lacks"
                f" one {names[0]}. Rename it: frame.rename(columns={{'NAME': {names[0]!r}}})"
            )
        named.append(found)
    rows = zip(*(frame[name].tolist() for name in named), strict=True)
    yield from ((*row, f" row {number}") for number, row in enumerate(rows))


def _of_items(items: Iterable[Any], kind: DataKind) -> Iterator[Found]:
    attributes = QUERY[0], DOCUMENT[0], kind.columns[0]
    for number, item in enumerate(items):
        place = f" item {number}"
        if all(hasattr(item, name) for name in attributes):
            query, doc, value = (getattr(item, name) for name in attributes)
        elif type(item) is tuple and len(item) == len(attributes):
            query, doc, value = item
        else:
            raise _shape(kind, f"list whose{place} is a {type(item).__name__}")
        yield query, doc, value, place


def _foreign_id(found: object, what: str, place: str, kind: DataKind) -> str:
    """Return an id as text; a whole number is one too, as pandas reads digits."""
    named = str(found) if isinstance(found, Integral) and not isinstance(found, bool) else found
    if not isinstance(named, str) or not named or not UNFIT.isdisjoint(named):
        raise kind.error(
            f"{kind.name}{place}: the {what} id {found!r} is not a text without white space. Use"
            " ids that a TREC file can carry"
        )
    return named


def _shape(kind: DataKind, found: str) -> HarnessError:
    return kind.error(f"{kind.name}: cannot be read from a {found}. {kind.shapes}")


PARQUET, TABBED = ".parquet", ".tsv"
UNNAMED = "run"
RUN = DataKind(
    "run", "score", ("score",), RunError,
    "Give {query: {document: score}}, a frame with the columns query_id, doc_id and score, a ranx"
    " Run, an iterable of ir_measures.ScoredDoc, or the path of a TREC file",
)  # fmt: skip
QRELS = DataKind(
    "qrels", "grade", GRADE, DatasetError,
    "Give {query: {document: grade}}, a frame with the columns query_id, doc_id and relevance, ranx"
    " Qrels, an iterable of ir_measures.Qrel, or the path of a TREC file",
)  # fmt: skip


def load_run(run: RunLike, arm: str = "", *, empty: Iterable[str] = ()) -> Run:
    """Read a run from a file or another tool's object.

    A path that ends in ``.parquet`` is a run of the harness; any other file has TREC lines. Besides
    a path it accepts a mapping ``{query: {document: score}}``, a ranx Run, and a ``Run``, which is
    returned. It also accepts a pandas frame (columns ``query_id``, ``doc_id`` and ``score``, or the
    names of ranx and PyTerrier), and an iterable of ``ir_measures.ScoredDoc`` or of tuples.

    Higher scores are better. All but the Parquet file are ordered as by
    ``harness.corpus.trec.read_run``. ``arm`` names the run; without it, the name in the Parquet
    file, the TREC file or the ranx Run is used, or ``run``. A query without a line is missing from
    the run. Queries of ``empty``, and ``{query: {}}`` in a mapping, count as answered with nothing.

    Raises:
        BadFile: the file is missing, damaged or malformed.
        RunError: the object is not a run, or a score is not finite; the message names the place.
        BadName: the name is invalid for an arm; give another one with ``arm``.
    """
    return named_run(run, arm, "", empty)


def named_run(run: RunLike, arm: str, otherwise: str, empty: Iterable[str] = ()) -> Run:
    """Read a run as ``load_run`` does; one without a name is called ``otherwise``."""
    if isinstance(run, str | Path):
        file = Path(run)
        if file.suffix == PARQUET:
            read = runs.read_run(file)
            return replace(read, arm=checked("an arm", arm or read.arm))
        name = checked("an arm", arm or file.stem)
        return trec.read_run(file, name, empty, missing=trec.MissingQuery.EMPTY)
    if isinstance(run, Run):
        return replace(run, arm=checked("an arm", arm)) if arm else run
    found, answered = values(run, RUN)
    shown = trec.ScoredDocuments()
    for value in found:
        shown.add(value.query_id, value.doc_id, _score(value))
    for query_id in (*answered, *empty):
        shown.ask(query_id)
    if not shown.queries:
        raise RunError(f"{RUN.name}: it is empty. {RUN.shapes}")
    own = getattr(run, "name", None)
    named = arm or (own if isinstance(own, str) else "") or otherwise or UNNAMED
    return shown.run(checked("an arm", named), trec.MissingQuery.EMPTY)


def load_qrels(qrels: QrelsLike) -> Qrels:
    """Read judgements from a file or another tool's object.

    A path that ends in ``.tsv`` has BEIR's ``query document grade`` with tabs; any other file has
    TREC lines. Besides a path it accepts a mapping ``{query: {document: grade}}``, ranx Qrels, and
    ``Qrels``, which are returned. It also accepts a pandas frame (columns ``query_id``, ``doc_id``
    and ``relevance``, or the names of ranx, PyTerrier and BEIR), and an iterable of
    ``ir_measures.Qrel`` or of tuples.

    Raises:
        BadFile: the file is missing or malformed, or judges a pair twice.
        DatasetError: the object is not judgements, a grade is not a whole number, or a pair is
            judged twice; the message names the place.
    """
    if isinstance(qrels, str | Path):
        file = Path(qrels)
        return beir.qrels(file) if file.suffix == TABBED else trec.qrels(file)
    if isinstance(qrels, Qrels):
        return qrels
    found, _ = values(qrels, QRELS)
    judged = Qrels.of(Judgement(one.query_id, one.doc_id, _grade(one)) for one in found)
    if not judged.grades:
        raise DatasetError(f"{QRELS.name}: it holds no judgement. {QRELS.shapes}")
    return judged


def _score(found: Value) -> float:
    value = found.value
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise RunError(
            f"run{found.place}: the score {value!r} of {found.doc_id} is not a finite number. Give"
            " a number, or leave the document out"
        )
    return float(value)


def _grade(found: Value) -> int:
    grade = cells.whole(found.value)
    if grade is None:
        raise DatasetError(
            f"qrels{found.place}: {cells.problem(found.value)} (of {found.doc_id}). {cells.HINT}"
        )
    return grade


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, queries and judgements, each a frame."""

    documents: pd.DataFrame
    """``doc_id``, ``title``, ``text``."""
    queries: pd.DataFrame
    """``query_id``, ``text``."""
    qrels: pd.DataFrame
    """``query_id``, ``doc_id``, ``relevance``."""


def load_collection(path: str | Path, split: str = "test") -> Collection:
    """Read a folder in BEIR layout as frames.

    Raises:
        BadFile: a file is missing or malformed.
    """
    import pandas as pd

    read = Beir(Path(path), split)
    documents = [(one.doc_id, one.title, one.text) for one in read.documents()]
    queries = [(one.query_id, one.text) for one in read.queries()]
    return Collection(
        pd.DataFrame(documents, columns=["doc_id", "title", "text"]),
        pd.DataFrame(queries, columns=["query_id", "text"]),
        pd.DataFrame([*read.qrels().rows()], columns=["query_id", "doc_id", "relevance"]),
    )


def save_collection(
    path: str | Path, documents: pd.DataFrame, queries: pd.DataFrame, qrels: pd.DataFrame
) -> Path:
    """Write frames as a folder in BEIR layout, which ``harness run --dataset`` takes.

    Documents have ``doc_id``, ``text`` and perhaps ``title``; queries ``query_id`` and ``text``;
    judgements as ``load_qrels`` takes them. The folder must not be there yet.

    Raises:
        DatasetError: the folder is there, a column is missing, an id is unfit or comes twice, or a
            text is not a text; the message names the row.
    """
    folder = Path(path)
    if folder.exists():
        raise DatasetError(f"{folder}: already exists; name a new folder")
    judged: Qrels = load_qrels(qrels)
    read = _rows("documents", documents, ("doc_id", "title", "text"))
    rows = [Document(doc_id, title, text) for doc_id, title, text in read]
    given = _rows("queries", queries, ("query_id", "text"))
    typed = tuple(Query(query_id, text) for query_id, text in given)
    doc_ids = {document.doc_id for document in rows}
    if pair := written_otherwise({row.doc_id for row in judged.rows()} - doc_ids, doc_ids):
        raise DatasetError(
            f"qrels: the document {pair[0]!r} is {pair[1]!r} in documents. Read ids as text"
            " (pandas: dtype=str)"
        )
    with replacing_folder(folder) as beside:
        writer("beir")(beside, Data(folder.name, lambda: iter(rows), typed, judged))
    return folder


def _rows(what: str, frame: pd.DataFrame, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    lacking = [name for name in columns if name not in frame.columns and name != "title"]
    if lacking:
        has = ", ".join(map(str, frame.columns))
        raise DatasetError(
            f"{what}: the frame has the columns {has}, and lacks {lacking[0]}. Rename it:"
            f" frame.rename(columns={{'NAME': {lacking[0]!r}}})"
        )
    empty = [""] * len(frame)
    cells = (frame[name].tolist() if name in frame.columns else empty for name in columns)
    seen: set[str] = set()
    for number, (given, *texts) in enumerate(zip(*cells, strict=True)):
        kind = QRELS._replace(name=what)
        key = _foreign_id(given, columns[0].removesuffix("_id"), f" row {number}", kind)
        if key in seen:
            raise DatasetError(f"{what} row {number}: the id {key!r} comes twice; keep one row")
        seen.add(key)
        for text in texts:
            if not isinstance(text, str):
                raise DatasetError(
                    f"{what} row {number}: {text!r} is not a text; fill it: frame.fillna('')"
                )
        yield key, *texts


Search: TypeAlias = Callable[
    [str], Iterable[str] | Iterable[tuple[str, SupportsFloat]] | Mapping[str, SupportsFloat]
]
"""Gives document ids, best first, with or without scores, or scores by document id."""
SHOWN = "shown"
"""Id of the one query of such a ranking."""
SHAPES = "Return document ids or (id, score) pairs with the best first, or a mapping of id to score"


def ranking_by(search: Search, text: str, name: str) -> tuple[str, ...]:
    """Run a query on a function called ``name``; return ids of documents, the best first."""
    given: object = search(text)
    if isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes):
        given = list(given)
        if all(isinstance(one, str) for one in given):
            return tuple(dict.fromkeys(given))
        if all(isinstance(one, tuple) and len(one) == len(("id", "score")) for one in given):
            load_run({SHOWN: dict(given)}, name)  # checks ids and scores; ties stay as they are
            for rank, ((_, before), (_, score)) in enumerate(pairwise(given), start=2):
                if score > before:  # as of distances, of which the smallest is the best
                    problem = f"{name}: rank {rank} scores {score}, more than the rank before it"
                    hint = "Sort by score, or return a mapping of id to score, which is sorted here"
                    raise RunError(f"{problem}. {hint}")
            return tuple(dict.fromkeys(str(doc_id) for doc_id, _ in given))
    if not isinstance(given, Mapping):
        inside = given if isinstance(given, list) else ()
        kinds = " and ".join(sorted({type(one).__name__ for one in inside}))
        of = f" of {kinds}" if kinds else ""
        raise RunError(f"{name}: gives a {type(given).__name__}{of}. {SHAPES}")
    return load_run({SHOWN: given}, name).ranking(SHOWN)
