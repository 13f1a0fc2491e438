"""Runs and per-query values as Parquet."""

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
from harness.core.run import Conditions, Run, Status
from harness.core.scores import Scores
from harness.corpus.parquet import numbers, table_of
from harness.corpus.prepared import parsed_once

COLUMNS = pa.schema([
    ("query_id", pa.string()),
    ("status", pa.string()),
    ("docs", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    ("score", pa.list_(pa.float64())),
    ("raw_score", pa.list_(pa.float64())),
    ("duplicates", pa.int32()),
    ("served_by", pa.string()),
    ("error", pa.string()),
])

PARTITION = 10_000
"""Queries in a row group, so that a long run can be read in parts."""
IDS_BYTES = 1 << 28
"""Room for the document ids of a row group; beyond it each hit would carry its own."""


def write_run(run: Run, path: Path) -> None:
    """Write a run; the same run always gives the same bytes."""
    about = {"arm": run.arm}
    if run.conditions:
        about["k"] = str(run.conditions.k)
        about["time_limit_s"] = repr(run.conditions.time_limit_s)
    if run.retries:
        about["retries"] = str(run.retries)
    if run.rate_limited:
        about["rate_limited"] = str(run.rate_limited)
    offsets = pa.array(run.offsets.astype(np.int32))
    docs = pa.DictionaryArray.from_arrays(pa.array(run.docs), pa.array(run.vocabulary, pa.string()))
    table = pa.table(
        [
            pa.array(run.query_ids, pa.string()),
            pa.array([Status(code).name.lower() for code in run.status], pa.string()),
            pa.ListArray.from_arrays(offsets, docs),
            pa.ListArray.from_arrays(offsets, pa.array(run.score)),
            pa.ListArray.from_arrays(offsets, pa.array(run.raw_score)),
            pa.array(run.duplicates),
            pa.array(run.served_by, pa.string()),
            pa.array(run.errors, pa.string()),
        ],
        schema=COLUMNS.with_metadata(about),
    )
    with replacing(path) as beside:
        pq.write_table(
            table,
            beside,
            compression="zstd",
            row_group_size=PARTITION,
            dictionary_pagesize_limit=IDS_BYTES,
        )


@parsed_once(keep=4)
def read_run(path: Path) -> Run:
    """Read what ``write_run`` wrote.

    Raises:
        BadFile: the file is missing, cut short, damaged or no run.
    """
    hint = "Run again: harness replay"
    try:
        table = table_of(path, COLUMNS)
    except FileNotFoundError:
        raise BadFile(path, "no such run", hint) from None
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"not a run ({exc})", hint) from exc
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if "arm" not in about:
        raise BadFile(path, "lacks the name of its arm", hint)
    unknown = set(table.column("status").to_pylist()) - {status.name.lower() for status in Status}
    if unknown:
        raise BadFile(path, f"knows the unknown status {sorted(unknown)}", hint)
    lists = table.column("docs").combine_chunks()
    docs = lists.values
    vocabulary = tuple(map(intern, docs.dictionary.to_pylist()))
    if list(vocabulary) != sorted(set(vocabulary)):
        raise BadFile(path, "its documents are not in byte order of their ids", hint)
    offsets = numbers(lists.offsets).astype(np.int64)
    codes = numbers(docs.indices)
    query_ids = tuple(map(intern, table.column("query_id").to_pylist()))
    _refuse_repeats(path, query_ids, offsets, codes)
    return Run(
        arm=about["arm"],
        query_ids=query_ids,
        vocabulary=vocabulary,
        offsets=offsets,
        docs=codes,
        score=_flat(table, "score"),
        raw_score=_flat(table, "raw_score"),
        status=np.array(
            [Status[name.upper()] for name in table.column("status").to_pylist()], dtype=np.uint8
        ),
        served_by=tuple(map(intern, table.column("served_by").to_pylist())),
        errors=tuple(table.column("error").to_pylist()),
        duplicates=numbers(table.column("duplicates")).astype(np.int32),
        conditions=_conditions(path, about),
        retries=_count(path, about, "retries"),
        rate_limited=_count(path, about, "rate_limited"),
    )


def _conditions(path: Path, about: Mapping[str, str]) -> Conditions | None:
    """Give how the queries were asked, where the file says so."""
    if not about.keys() & {"k", "time_limit_s"}:
        return None
    try:
        return Conditions(int(about["k"]), float(about["time_limit_s"]))
    except (KeyError, ValueError) as exc:
        hint = "Run again: harness replay"
        raise BadFile(path, f"does not say how its queries were run ({exc!r})", hint) from exc


def _count(path: Path, about: Mapping[str, str], name: str) -> int:
    told = about.get(name, "0")
    if not told.isdecimal():
        raise BadFile(path, f"says {told!r} {name}", "Run again: harness replay")
    return int(told)


def _refuse_repeats(
    path: Path, query_ids: Sequence[str], offsets: NDArray[np.int64], codes: NDArray[np.int32]
) -> None:
    """Refuse a ranking that shows a document twice: it would earn its gain twice."""
    row = np.repeat(np.arange(len(query_ids)), np.diff(offsets))
    most = int(codes.max(initial=0)) + 1
    pairs = np.sort(row * most + codes)
    again = pairs[1:][np.diff(pairs) == 0]
    if len(again):
        first = query_ids[int(again[0]) // most]
        hint = "Run again: harness replay"
        raise BadFile(path, f"{first} is shown one document twice", hint)


def _flat(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values: np.ndarray[tuple[int], np.dtype[np.float64]] = numbers(
        table.column(name).combine_chunks().values
    ).astype(np.float64)
    return values


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
