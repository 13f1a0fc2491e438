"""Per-query values as a Parquet table in long form: one row a key, measure and query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from sys import intern

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from harness.core.errors import BadFile
from harness.core.files import replacing
from harness.core.scores import Scores
from harness.corpus.once import parsed_once
from harness.corpus.parquet import numbers, table_of

Key = tuple[str, ...]
"""What the scores are of: an arm, or a control and a candidate."""


def score_columns(key_names: Sequence[str]) -> pa.Schema:
    """Give the columns of a score table; an undefined value is null and has its reason."""
    texts = [(name, pa.string()) for name in (*key_names, "measure", "query_id")]
    return pa.schema([*texts, ("value", pa.float64()), ("undefined", pa.string())])


def write_scores(
    path: Path, key_names: Sequence[str], scores: Mapping[Key, Mapping[str, Scores]]
) -> None:
    """Write scores by key and measure; undefined values are null and carry their reason."""
    schema = score_columns(key_names)
    parts = [_part(key, found, schema) for key, of in scores.items() for found in of.values()]
    with replacing(path) as beside:
        pq.write_table(
            pa.Table.from_batches(parts, schema).combine_chunks(), beside, compression="zstd"
        )


def _part(key: Key, found: Scores, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of one measure of one key."""
    lost = [why for why, ids in found.undefined.items() for _ in ids]
    ids = [*found.query_ids, *(query_id for of in found.undefined.values() for query_id in of)]
    without = np.arange(len(ids)) >= len(found.values)
    columns = [pa.repeat(pa.scalar(text, pa.string()), len(ids)) for text in (*key, found.measure)]
    columns += [
        pa.array(ids, pa.string()),
        pa.array(np.append(found.values, np.zeros(len(lost))), pa.float64(), mask=without),
        pa.array([*[None] * len(found.values), *lost], pa.string()),
    ]
    return pa.record_batch(columns, schema=schema)


def read_scores(path: Path, key_names: Sequence[str]) -> dict[Key, dict[str, Scores]]:
    """Read what ``write_scores`` wrote.

    Raises:
        BadFile: the file is missing, damaged or has other columns.
    """
    return {key: {**found} for key, found in _read(path, tuple(key_names)).items()}


@parsed_once(keep=2)
def _read(path: Path, key_names: tuple[str, ...]) -> dict[Key, dict[str, Scores]]:
    wanted = score_columns(key_names)
    try:
        table = table_of(path, wanted, ("value", "undefined"))
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"no score table ({exc})", "Run again: dvc repro") from exc
    if not len(table):
        return {}
    *named, asked = (_coded(table, name) for name in wanted.names[:-2])
    group = _numbered(named)
    values = np.array(table.column("value").to_pylist(), dtype=np.float64)
    reasons = table.column("undefined").to_pylist()
    lost = np.array([reason is not None for reason in reasons])
    found: dict[Key, dict[str, Scores]] = {}
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    for rows in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        *key, measure = (texts[codes[rows[0]]] for codes, texts in named)
        codes, texts = asked
        kept, gone = rows[~lost[rows]], rows[lost[rows]]
        query_ids = tuple(map(texts.__getitem__, codes[kept].tolist()))
        without: dict[str, list[str]] = {}
        for row in gone.tolist():
            without.setdefault(reasons[row], []).append(texts[codes[row]])
        found.setdefault(tuple(key), {})[measure] = Scores(
            measure,
            same.setdefault(query_ids, query_ids),
            values[kept],
            {reason: tuple(ids) for reason, ids in without.items()},
        )
    return found


def _coded(table: pa.Table, name: str) -> tuple[NDArray[np.int32], list[str]]:
    """Return a column of texts as codes, and the text of each code."""
    coded = table.column(name).combine_chunks().dictionary_encode()
    return numbers(coded.indices), list(map(intern, coded.dictionary.to_pylist()))


def _numbered(columns: Iterable[tuple[NDArray[np.int32], list[str]]]) -> NDArray[np.int64]:
    """Count the combinations of codes in the order they come, and return that of each row."""
    whole = np.zeros(1, dtype=np.int64)
    for codes, texts in columns:
        whole = whole * len(texts) + codes.astype(np.int64)
    _, first, of = np.unique(whole, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[of]
