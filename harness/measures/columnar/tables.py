"""Rankings and judgements as flat tables with a row for each hit, graded without Python objects."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from harness.core.errors import DatasetError, RunError
from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.columnar.graded import Graded
from harness.measures.columnar.lookup import UNKNOWN
from harness.measures.columnar.repeats import repeats

ONE_CHUNK = 1 << 31
"""Bytes of strings that one chunk can hold; chunks joined first need no joining of dictionaries."""


def code_table(qrels: pa.Table) -> EncodedQrels:
    """Encode judgements from the columns ``query_id``, ``doc_id`` and ``grade``.

    Raises:
        DatasetError: a grade is not an integer, a cell is empty, or a pair comes twice.
    """
    grades = qrels.column("grade")
    if not pa.types.is_integer(grades.type):
        raise DatasetError(
            f"grade is {grades.type}, not an integer; map the scale to integers (gains are linear)"
        )
    if any(column.null_count for column in qrels.columns):
        raise DatasetError("a cell of the judgements is empty; leave the row out")
    queries, docs = _encoded(qrels.column("query_id")), _encoded(qrels.column("doc_id"))
    order = pc.sort_indices(queries.dictionary)
    place = np.empty(len(order), dtype=np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    return EncodedQrels.of_columns(
        tuple(queries.dictionary.take(order).to_pylist()),
        tuple(docs.dictionary.to_pylist()),
        place[queries.indices.to_numpy()],
        docs.indices.to_numpy(),
        grades.to_numpy().astype(np.int32),
    )


def grade_table(run: pa.Table, qrels: EncodedQrels) -> Graded:
    """Grade the hits in the columns ``query_id``, ``doc_id`` and ``score``, in any order.

    The order is that of trec_eval with float64: by falling scores, then by falling document id, in
    bytes. The best place of a repeated document counts. Pass a pandas frame as
    ``pa.Table.from_pandas(frame)``.

    Raises:
        RunError: a score is missing, NaN or infinite.
    """
    score = run.column("score").to_numpy().astype(np.float64, copy=False)
    if not np.isfinite(score).all():
        row = int(np.flatnonzero(~np.isfinite(score))[0])
        raise RunError(f"row {row} has the score {score[row]}; a score must be a finite number")
    queries, docs = _encoded(run.column("query_id")), _encoded(run.column("doc_id"))
    query, doc = queries.indices.to_numpy().astype(np.int64), docs.indices.to_numpy()
    order = _order(query, score, docs)
    if order is not None:
        query, doc = query[order], doc[order]
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    if repeats(doc, np.append(starts, len(doc))):
        first = np.sort(np.unique(query << 32 | doc, return_index=True)[1])
        query, doc = query[first], doc[first]
        starts = np.flatnonzero(np.diff(query, prepend=-1))
    known = pa.array(qrels.query_ids, queries.dictionary.type)
    rows = _places(queries.dictionary, known, -1)[query[starts]].astype(np.int64)
    ours = pa.array(qrels.vocabulary, docs.dictionary.type)
    translation = _places(docs.dictionary, ours, UNKNOWN)
    offsets = np.append(starts, len(query)).astype(np.int64, copy=False)
    return Graded.of_rows(qrels, rows, offsets, doc, translation)


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if pa.types.is_dictionary(column.type):
        return column.unify_dictionaries().combine_chunks()
    if column.nbytes < ONE_CHUNK:
        return column.combine_chunks().dictionary_encode()
    return column.dictionary_encode().unify_dictionaries().combine_chunks()


def _places(values: pa.Array, among: pa.Array, other: int) -> NDArray[np.int32]:
    """Where each value stands in ``among``, ``other`` where it does not."""
    found = pc.index_in(values, value_set=among).fill_null(other).to_numpy()
    return np.asarray(found, dtype=np.int32)


def _order(
    query: NDArray[np.int64], score: NDArray[np.float64], docs: pa.DictionaryArray
) -> NDArray[np.int64] | None:
    """Positions of the hits by query, then rank; None where they stand so already."""
    same = query[1:] == query[:-1]
    order: NDArray[np.int64] | None = None
    if (query[1:] < query[:-1]).any() or (same & (score[1:] > score[:-1])).any():
        order = np.lexsort((-score, query))
        query, score = query[order], score[order]
        same = query[1:] == query[:-1]
    tied = same & (score[1:] == score[:-1])
    if not tied.any():
        return order
    order = np.arange(len(query)) if order is None else order
    inside = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    tie = np.cumsum(~np.append(False, tied))[inside]
    codes = docs.indices.to_numpy()[order[inside]]
    shown, at = np.unique(codes, return_inverse=True)
    by_bytes = np.empty(len(shown), dtype=np.int64)
    by_bytes[pc.sort_indices(docs.dictionary.take(pa.array(shown))).to_numpy()] = np.arange(
        len(shown)
    )
    order[inside] = order[inside][np.lexsort((-by_bytes[at], tie))]
    return order
