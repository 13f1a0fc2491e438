"""Runs and judgements in other tools' objects: the names of their values, and where they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, SupportsFloat, TypeAlias

from harness.core.errors import HarnessError
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.corpus.lines import UNCARRIED

if TYPE_CHECKING:
    import pandas as pd

QUERY = ("query_id", "q_id", "qid", "query-id")
DOCUMENT = ("doc_id", "docno", "docid", "corpus-id")
SCORE = ("score",)
GRADE = ("relevance", "label", "grade", "rel", "score")
"""Column names of ir_measures, ranx, PyTerrier and BEIR; the first one present counts."""


class Scored(Protocol):
    """One line of a run, such as ``ir_measures.ScoredDoc``."""

    @property
    def query_id(self) -> str: ...
    @property
    def doc_id(self) -> str: ...
    @property
    def score(self) -> SupportsFloat: ...


class Judged(Protocol):
    """One judgement, such as ``ir_measures.Qrel``."""

    @property
    def query_id(self) -> str: ...
    @property
    def doc_id(self) -> str: ...
    @property
    def relevance(self) -> int: ...


class AsDict(Protocol):
    """A run or judgements of ranx: ``to_dict`` gives values by query and document."""

    def to_dict(self) -> Mapping[str, Mapping[str, Any]]:
        """Give values by query and document."""
        ...


RunLike: TypeAlias = (
    "Run | str | Path | Mapping[str, Mapping[str, SupportsFloat]] | pd.DataFrame | AsDict"
    " | Iterable[Scored] | Iterable[tuple[str, str, SupportsFloat]]"
)
"""Everything that is accepted as a run."""
QrelsLike: TypeAlias = (
    "Qrels | str | Path | Mapping[str, Mapping[str, int]] | pd.DataFrame | AsDict"
    " | Iterable[Judged] | Iterable[tuple[str, str, int]]"
)
"""Everything that is accepted as judgements."""


class Kind(NamedTuple):
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


def values(given: object, kind: Kind) -> tuple[Iterator[Value], tuple[str, ...]]:
    """Read values, and the queries without any.

    Raises:
        HarnessError: as ``kind.error``: the object has another shape, lacks a column, or has an
            invalid id.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame):
        return _of_frame(given, kind), ()
    if not isinstance(given, Mapping) and hasattr(given, "to_dict"):
        given = given.to_dict()
    if isinstance(given, Mapping):
        empty = tuple(_id(q, "query", f"[{q!r}]", kind) for q, of in given.items() if _is_empty(of))
        return _of_mapping(given, kind), empty
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return _of_items(given, kind), ()
    raise _shape(kind, type(given).__name__)


def _is_empty(of: object) -> bool:
    return isinstance(of, Mapping) and not of


def _of_mapping(given: Mapping[Any, Any], kind: Kind) -> Iterator[Value]:
    for query, of in given.items():
        if not isinstance(of, Mapping):
            raise kind.error(
                f"{kind.name}[{query!r}] is a {type(of).__name__}, not a mapping of document to"
                f" {kind.value}. {kind.shapes}"
            )
        query_id = _id(query, "query", f"[{query!r}]", kind)
        for doc, value in of.items():
            place = f"[{query!r}][{doc!r}]"
            yield Value(query_id, _id(doc, "document", place, kind), value, place)


def _of_frame(frame: pd.DataFrame, kind: Kind) -> Iterator[Value]:
    named = [_column(frame, names, kind) for names in (QUERY, DOCUMENT, kind.columns)]
    rows = zip(*(frame[name].tolist() for name in named), strict=True)
    for number, (query, doc, value) in enumerate(rows):
        place = f" row {number}"
        query_id = _id(query, "query", place, kind)
        yield Value(query_id, _id(doc, "document", place, kind), value, place)


def _column(frame: pd.DataFrame, names: Sequence[str], kind: Kind) -> str:
    for name in names:
        if list(frame.columns).count(name) == 1:
            return name
    raise kind.error(
        f"{kind.name}: the frame has the columns {', '.join(map(str, frame.columns))}, and lacks"
        f" one {names[0]}. Rename it: frame.rename(columns={{'NAME': {names[0]!r}}})"
    )


def _of_items(items: Iterable[Any], kind: Kind) -> Iterator[Value]:
    for number, item in enumerate(items):
        place = f" item {number}"
        found = _parts(item, kind)
        if found is None:
            raise _shape(kind, f"list whose{place} is a {type(item).__name__}")
        query, doc, value = found
        query_id = _id(query, "query", place, kind)
        yield Value(query_id, _id(doc, "document", place, kind), value, place)


def _parts(item: Any, kind: Kind) -> tuple[Any, Any, Any] | None:  # noqa: ANN401  of any tool
    """Take query, document and value out of an object with names, or of a tuple of three."""
    name = kind.columns[0]
    if all(hasattr(item, part) for part in (QUERY[0], DOCUMENT[0], name)):
        return item.query_id, item.doc_id, getattr(item, name)
    if isinstance(item, tuple) and not hasattr(item, "_fields"):
        return (item[0], item[1], item[2]) if len(item) == len(Value._fields) - 1 else None
    return None


def _id(found: object, what: str, place: str, kind: Kind) -> str:
    """Give an id as text; a whole number is one too, as pandas reads digits."""
    named = str(found) if isinstance(found, Integral) and not isinstance(found, bool) else found
    if not isinstance(named, str) or not named or any(one in named for one in UNCARRIED):
        raise kind.error(
            f"{kind.name}{place}: the {what} id {found!r} is not a text without white space. Use"
            " ids that a TREC file can carry"
        )
    return named


def _shape(kind: Kind, found: str) -> HarnessError:
    return kind.error(f"{kind.name}: cannot be read from a {found}. {kind.shapes}")
