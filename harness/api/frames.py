"""A collection as frames of pandas: read from a folder in BEIR layout, and written as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.api.loading import load_qrels
from harness.core.errors import DatasetError
from harness.core.files import replacing_folder
from harness.core.qrels import Qrels
from harness.core.records import Document, Query
from harness.corpus.beir import Beir
from harness.corpus.cells.identity import written_otherwise
from harness.corpus.exchange.formats import Data, writer
from harness.corpus.lines import UNCARRIED

if TYPE_CHECKING:
    import pandas as pd


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
        raise DatasetError(f"{folder}: is there already; name a new folder")
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
        key = _id(what, number, given)
        if key in seen:
            raise DatasetError(f"{what} row {number}: the id {key!r} comes twice; keep one row")
        seen.add(key)
        for text in texts:
            if not isinstance(text, str):
                raise DatasetError(
                    f"{what} row {number}: {text!r} is not a text; fill it: frame.fillna('')"
                )
        yield key, *texts


def _id(what: str, number: int, given: Any) -> str:  # noqa: ANN401  a cell
    named = str(given)
    if not isinstance(given, str | int) or not named or any(one in named for one in UNCARRIED):
        raise DatasetError(
            f"{what} row {number}: the id {given!r} is not a text without white space; use ids that"
            " a TREC file can carry"
        )
    return named
