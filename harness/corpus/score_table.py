"""Per-query values as a Parquet table in long form: one row a key, measure and query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.errors import BadFile
from harness.core.files import replacing
from harness.core.scores import Scores
from harness.corpus.parquet import table_of

Key = tuple[str, ...]
"""What the scores are of: an arm, or a control and a candidate."""


def write_scores(
    path: Path, key_names: Sequence[str], scores: Mapping[Key, Mapping[str, Scores]]
) -> None:
    """Write scores by key and measure; undefined values are null and carry their reason."""
    rows = list(_rows(scores))
    names = [*key_names, "measure", "query_id", "value", "undefined"]
    types = [*[pa.string()] * len(key_names), pa.string(), pa.string(), pa.float64(), pa.string()]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names
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
    try:
        table = table_of(path)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"no score table ({exc})", "Run again: dvc repro") from exc
    names = [*key_names, "measure", "query_id", "value", "undefined"]
    if table.column_names != names:
        raise BadFile(path, f"has the columns {table.column_names}", f"Expected are {names}")
    defined: dict[tuple[Key, str], dict[str, float]] = {}
    without: dict[tuple[Key, str], dict[str, list[str]]] = {}
    for *key, measure, query_id, value, reason in zip(
        *(table.column(name).to_pylist() for name in names), strict=True
    ):
        at = (tuple(key), measure)
        defined.setdefault(at, {})
        if reason is None:
            defined[at][query_id] = value
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
