"""Per-query values as a Parquet table in long form: one row a key, measure and query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from sys import intern

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.errors import BadFile
from harness.core.files import replacing
from harness.core.scores import Scores
from harness.corpus.once import parsed_once
from harness.corpus.parquet import table_of

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
    rows = list(_rows(scores))
    schema = score_columns(key_names)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
        schema.names,
    )
    with replacing(path) as beside:
        pq.write_table(table, beside, compression="zstd")


def _rows(scores: Mapping[Key, Mapping[str, Scores]]) -> Iterable[tuple[str | float | None, ...]]:
    for key, by_measure in scores.items():
        for measure, found in by_measure.items():
            for query_id, value in found.by_query.items():
                yield (*key, measure, query_id, value, None)
            for reason, query_ids in found.undefined.items():
                for query_id in query_ids:
                    yield (*key, measure, query_id, None, reason)


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
    defined: dict[tuple[Key, str], dict[str, float]] = {}
    without: dict[tuple[Key, str], dict[str, list[str]]] = {}
    for *key, measure, query_id, value, reason in zip(
        *(table.column(name).to_pylist() for name in wanted.names), strict=True
    ):
        at = (tuple(key), measure)
        defined.setdefault(at, {})
        if reason is None:
            defined[at][intern(query_id)] = value
        else:
            without.setdefault(at, {}).setdefault(reason, []).append(query_id)
    found: dict[Key, dict[str, Scores]] = {}
    for (whose, measure), values in defined.items():
        found.setdefault(whose, {})[measure] = Scores(
            measure,
            tuple(values),
            np.array(list(values.values()), dtype=np.float64),
            {why: tuple(ids) for why, ids in without.get((whose, measure), {}).items()},
        )
    return found
