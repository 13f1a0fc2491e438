"""Stage ``import`` for ir_datasets: one of its collections, from files that it has on this machine.

ir_datasets downloads what it lacks as soon as it is read. Here it does so only where that is
requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from harness.core.errors import DatasetError, UnknownName
from harness.core.qrels import Qrels
from harness.core.records import Document, Judgement, Query
from harness.corpus.lines import UNCARRIED
from harness.stages.imports.collections import Given, Target, register
from harness.stages.imports.report import ImportReport

PARTS = ("docs", "queries", "qrels")
SHOWN = 5
"""Names of collections in a message."""


def import_ir_datasets(to: Target, *, collection: str, download: bool) -> ImportReport:
    """Register a collection of ir_datasets, such as ``beir/scifact/test``.

    A document's title and text are taken where it has such fields, else its default text.

    Raises:
        UnknownName: ir_datasets has no such collection.
        DatasetError: it lacks documents, queries or judgements, or its files are not here and
            ``download`` is not given. Or as ``import_beir``.
        ModuleNotFoundError: ir_datasets is not installed.
    """
    import ir_datasets

    try:
        found: Any = ir_datasets.load(collection)
    except KeyError as exc:
        near = get_close_matches(collection, ir_datasets.registry, n=SHOWN, cutoff=0.0)
        raise UnknownName("collection of ir_datasets", collection, near) from exc
    for part in PARTS:
        if not getattr(found, f"has_{part}")():
            below = [name for name in ir_datasets.registry if name.startswith(f"{collection}/")]
            raise DatasetError(
                f"{collection}: has no {part} in ir_datasets; choose one that has, such as"
                f" {', '.join(below[:SHOWN]) or 'beir/scifact/test'}"
            )
    with _downloads(collection, allowed=download):
        queries = tuple(_query(one) for one in found.queries_iter())
        qrels = Qrels.of(
            Judgement(_id(one.query_id), _id(one.doc_id), one.relevance)
            for one in found.qrels_iter()
        )
        given = Given(lambda: map(_document, found.docs_iter()), queries, qrels, ())
        return register(given, to)


class _Refused(BaseException):
    """A download that was not requested: no ``Exception``, which ir_datasets would pass over."""


def _refuse() -> None:
    raise _Refused


@contextmanager
def _downloads(collection: str, *, allowed: bool) -> Iterator[None]:
    """Let ir_datasets download, or make it an error that says how to allow it."""
    from ir_datasets import lazy_libs

    fetch = lazy_libs.requests
    lazy_libs.requests = fetch if allowed else _refuse
    try:
        yield
    except _Refused as exc:
        raise DatasetError(
            f"{collection}: its files are not on this machine; let ir_datasets download them with"
            " --download"
        ) from exc
    finally:
        lazy_libs.requests = fetch


def _query(one: Any) -> Query:  # noqa: ANN401  a tuple of ir_datasets
    return Query(_id(one.query_id), one.default_text())


def _document(one: Any) -> Document:  # noqa: ANN401  a tuple of ir_datasets
    title, text = getattr(one, "title", None), getattr(one, "text", None)
    doc_id = _id(one.doc_id)
    if isinstance(text, str):
        return Document(doc_id, title if isinstance(title, str) else "", text)
    return Document(doc_id, "", one.default_text())


def _id(given: str) -> str:
    """Check an id.

    Raises:
        DatasetError: no file of ours can carry it.
    """
    if not given or any(one in UNCARRIED for one in given):
        raise DatasetError(f"the id {given!r} is empty or holds white space; it cannot be imported")
    return given
