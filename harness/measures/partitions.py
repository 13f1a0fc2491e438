"""Scores of a run that does not fit in memory: a row group of its file at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ir_measures import Measure
from numpy.typing import NDArray

from harness.core.errors import BadFile, UnknownName
from harness.core.run import Status
from harness.core.scores import Scores
from harness.corpus.runs import COLUMNS, row_groups
from harness.measures import kernels
from harness.measures.columns import UNKNOWN, EncodedQrels
from harness.measures.kernels import OTHER, Graded, MeasureSpec
from harness.measures.name import as_gains, parse
from harness.measures.quality import WHY, reasons, with_reasons

WANTED = pa.schema([COLUMNS.field(name) for name in ("query_id", "status", "docs")])


class FileValues(NamedTuple):
    """What one file says of the judged queries that it has."""

    rows: NDArray[np.int64]
    """Their places among the judged queries, ascending."""
    status: NDArray[np.uint8]
    """Shape (rows,)."""
    values: NDArray[np.float64]
    """Shape (measures, rows)."""


def partial_scores(path: Path, qrels: EncodedQrels, measures: Sequence[str]) -> FileValues:
    """Score the judged queries of one run file."""
    asked = [_asked(name, qrels) for name in measures]
    values = np.zeros((len(asked), len(qrels)))
    shown: pa.Array | None = None
    vocabulary = pa.array(qrels.vocabulary, pa.string())
    ended = np.full(len(qrels), Status.NOT_ASKED, dtype=np.uint8)
    for table in _row_groups(path):
        named = table.column("query_id").to_pylist()
        places = (qrels.position.get(query_id, OTHER) for query_id in named)
        found = np.fromiter(places, dtype=np.int64, count=len(named))
        known = found != OTHER
        status = _statuses(path, table.column("status"))
        ended[found[known]] = status[known]
        rising = np.sort(found[known & (status == Status.ANSWERED)])
        part = qrels.part(rising)
        lists = table.column("docs").combine_chunks()
        if shown is None or not shown.equals(lists.values.dictionary):
            shown = lists.values.dictionary
            seen = pc.index_in(shown, value_set=vocabulary)
            ours = seen.fill_null(UNKNOWN).to_numpy().astype(np.int32, copy=False)
        offsets = lists.offsets.to_numpy().astype(np.int64)
        hits = lists.values.indices.to_numpy()
        graded = Graded.of_rows(part, _among(rising, found), offsets, hits, ours)
        for row, one in enumerate(asked):
            values[row, rising] = kernels.evaluate(graded, one)
    rows = np.flatnonzero(ended != Status.NOT_ASKED)
    return FileValues(rows, ended[rows], values[:, rows])


def joined(
    parts: Iterable[tuple[Path, FileValues]], qrels: EncodedQrels, measures: Sequence[str]
) -> Mapping[str, Scores]:
    """Assemble what the files of one run say."""
    values = np.zeros((len(measures), len(qrels)))
    ended = np.full(len(qrels), Status.NOT_ASKED, dtype=np.uint8)
    for path, part in parts:
        twice = part.rows[ended[part.rows] != Status.NOT_ASKED]
        if len(twice):
            query_id = qrels.query_ids[int(twice[0])]
            hint = "Give each part of a run once, with queries of its own."
            raise BadFile(path, f"{query_id} is in another file too", hint)
        ended[part.rows] = part.status
        values[:, part.rows] = part.values
    why, every = WHY[ended], np.arange(len(qrels))
    return {
        name: with_reasons(
            name, qrels.query_ids, reasons(_measure(name, qrels), qrels, every, why), of
        )
        for name, of in zip(measures, values, strict=True)
    }


def _measure(name: str, qrels: EncodedQrels) -> Measure:
    return as_gains(parse(name), np.unique(qrels.grades).tolist())


def _asked(name: str, qrels: EncodedQrels) -> MeasureSpec:
    asked = MeasureSpec.of(_measure(name, qrels))
    if asked is None:
        raise UnknownName("kernel", name, tuple(sorted(kernels.KERNELS)))
    return asked


def _row_groups(path: Path) -> Iterator[pa.Table]:
    try:
        yield from row_groups(path, WANTED)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"not a run ({exc})", "Write it with write_run.") from exc


def _statuses(path: Path, column: pa.ChunkedArray) -> NDArray[np.uint8]:
    code = {status.name.lower(): status.value for status in Status}
    try:
        return np.array([code[name] for name in column.to_pylist()], dtype=np.uint8)
    except KeyError as exc:
        raise BadFile(path, f"knows the unknown status {exc}", "Rebuild it.") from exc


def _among(rising: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of ``found`` stands in ``rising``, ``OTHER`` where it does not."""
    at = np.searchsorted(rising, found)
    known = np.append(rising, OTHER)[at] == found
    return np.where(known & (found != OTHER), at, OTHER)
