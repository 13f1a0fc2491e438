"""Parquet files as tables; runs and per-query values in them."""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from sys import intern
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from harness.core.reading import Malformed, naming, opened
from harness.core.run import Conditions, Run, Status
from harness.core.scores import Estimate, Scores
from harness.core.store import Artifact, Json

MAX_UNPACKED = 1_000
"""Times its own size that the values of a file may take; of a column they are often equal."""
UNPACKED_ANYWAY = 256 << 20
VALUE_BYTES = 8


def table_of(
    path: Path, wanted: pa.Schema, nullable: Container[str] = (), *, coded: bool = False
) -> pa.Table:
    """Return all columns and metadata of a file; texts are dictionaries where ``coded``."""
    most = max(UNPACKED_ANYWAY, MAX_UNPACKED * path.stat().st_size)
    with _opened(path, wanted) as file:
        _check_size(file.metadata, most)
        # pyarrow reads no lists of texts of several row groups at once
        parts = [file.read_row_group(at) for at in range(file.num_row_groups)] or [file.read()]
        for part in parts:
            part.validate(full=True)
    table = pa.concat_tables(parts if coded else [_written_out(part, most) for part in parts])
    for name in wanted.names:
        if name not in nullable and table.column(name).null_count:
            raise Malformed(f"{name} is not given in every row")
    return table.unify_dictionaries() if coded else table


@contextmanager
def _opened(path: Path, wanted: pa.Schema) -> Iterator[pq.ParquetFile]:
    """Open a file that has the wanted columns, each once and of its type."""
    with naming(path), opened(path) as file:
        try:
            about = pq.read_metadata(file)
            columns = [about.schema.column(at) for at in range(about.num_columns)]
            texts = [one.path for one in columns if one.physical_type == "BYTE_ARRAY"]
            schema = about.schema.to_arrow_schema()
            if lacking := set(wanted.names) - set(schema.names):
                raise Malformed(f"it lacks {sorted(lacking)}")
            for column in wanted:
                if schema.names.count(column.name) > 1:
                    raise Malformed(f"it has {column.name} twice")
                if (its := schema.field(column.name).type) != column.type:
                    raise Malformed(f"{column.name} is {its} instead of {column.type}")
            with pq.ParquetFile(file, metadata=about, read_dictionary=texts) as found:
                yield found
        except (OSError, pa.ArrowException) as exc:
            raise Malformed(str(exc)) from exc


def _check_size(about: pq.FileMetaData, most: int) -> None:
    """Check, before they are read, that the values of a file have a bound."""
    groups = [about.row_group(at) for at in range(about.num_row_groups)]
    rows = sum(one.num_rows for one in groups)
    values = sum(max(0, one.total_byte_size) for one in groups)
    size = values + VALUE_BYTES * about.num_columns * rows
    if size > most or any(one.num_rows < 0 for one in groups):
        raise Malformed(f"its values take {size} bytes, more than {most}")


def _written_out(part: pa.Table, most: int) -> pa.Table:
    """Write out texts that were read as dictionaries, where there is room."""
    import pyarrow.compute as pc

    for at, column in enumerate(part.columns):
        if isinstance(column.type, pa.DictionaryType):
            longest = [pc.max(pc.binary_length(one.dictionary)).as_py() for one in column.chunks]
            size = max((one or 0 for one in longest), default=0) * len(column)
            field = part.schema.field(at)
            if size > most:
                raise Malformed(f"the texts of {field.name} take {size} bytes, more than {most}")
            plain = field.with_type(column.type.value_type)
            part = part.set_column(at, plain, column.cast(plain.type))
    return part


def parquet_of(table: pa.Table, *, compression: str = "zstd", **how: int) -> bytes:
    """Return a table as a file has it; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=compression, **how)
    content: bytes = sink.getvalue().to_pybytes()
    return content


@contextmanager
def releasing() -> Iterator[None]:
    """Return to the system what pyarrow keeps of tables that are gone after the block."""
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()


def numbers(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return the numbers of a full column; ``to_numpy`` would import pandas for it."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.from_dlpack(whole)


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
    RUN.write(path, run)


def read_run(path: Path) -> Run:
    """Read what ``write_run`` wrote."""
    return RUN.read(path)


def _run_bytes(run: Run) -> bytes:
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
    return parquet_of(table, row_group_size=PARTITION, dictionary_pagesize_limit=IDS_BYTES)


@releasing()
def _run_in(path: Path) -> Run:
    table = table_of(path, COLUMNS, coded=True)
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    asked = bool(about.keys() & {"k", "time_limit_s"})
    status, names = _coded(table, "status")
    unknown = set(names) - {status.name.lower() for status in Status}
    if unknown:
        raise Malformed(f"knows the unknown status {sorted(unknown)}")
    lists = table.column("docs").combine_chunks()
    docs = lists.values
    vocabulary = tuple(map(intern, docs.dictionary.to_pylist()))
    if list(vocabulary) != sorted(set(vocabulary)):
        raise Malformed("its documents are not in byte order of their ids")
    offsets = numbers(lists.offsets).astype(np.int64)
    codes = numbers(docs.indices)
    query_ids = _texts(*_coded(table, "query_id"))
    _refuse_repeats(query_ids, offsets, codes)
    return Run(
        arm=about["arm"],
        query_ids=query_ids,
        vocabulary=vocabulary,
        offsets=offsets,
        docs=codes,
        score=_flat(table, "score"),
        raw_score=_flat(table, "raw_score"),
        status=np.array([Status[name.upper()] for name in names], dtype=np.uint8)[status],
        served_by=_texts(*_coded(table, "served_by")),
        errors=_texts(*_coded(table, "error")),
        duplicates=numbers(table.column("duplicates")).astype(np.int32),
        conditions=Conditions(int(about["k"]), float(about["time_limit_s"])) if asked else None,
        retries=int(about.get("retries", "0")),
        rate_limited=int(about.get("rate_limited", "0")),
    )


def _refuse_repeats(
    query_ids: Sequence[str], offsets: NDArray[np.int64], codes: NDArray[np.int32]
) -> None:
    """Refuse a ranking that shows a document twice: it would earn its gain twice."""
    row = np.repeat(np.arange(len(query_ids)), np.diff(offsets))
    most = int(codes.max(initial=0)) + 1
    pairs = np.sort(row * most + codes)
    again = pairs[1:][np.diff(pairs) == 0]
    if len(again):
        first = query_ids[int(again[0]) // most]
        raise Malformed(f"{first} is shown one document twice")


RUN = Artifact("a run", _run_in, _run_bytes, remedy="Run again: harness stage replay")
RUN_PART = Artifact("a part of a run", _run_in, _run_bytes, keep=1)


def _flat(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values: np.ndarray[tuple[int], np.dtype[np.float64]] = numbers(
        table.column(name).combine_chunks().values
    ).astype(np.float64)
    return values


Key = tuple[str, ...]
ScoreTable = Mapping[Key, Mapping[str, Scores]]
ARM, PAIR = ("arm",), ("control", "candidate")


def score_columns(key_names: Sequence[str]) -> pa.Schema:
    """Return the columns of a score table; an undefined value is null and has its reason."""
    texts = [(name, pa.string()) for name in (*key_names, "measure", "query_id")]
    return pa.schema([*texts, ("value", pa.float64()), ("undefined", pa.string())])


def _scores_bytes(key_names: Sequence[str], scores: ScoreTable) -> bytes:
    schema = score_columns(key_names)
    parts = [_part(key, found, schema) for key, of in scores.items() for found in of.values()]
    return parquet_of(pa.Table.from_batches(parts, schema).combine_chunks())


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


@releasing()
def _scores_in(key_names: Sequence[str], path: Path) -> ScoreTable:
    wanted = score_columns(key_names)
    table = table_of(path, wanted, ("value", "undefined"), coded=True)
    *named, (codes, texts), (why, reasons) = (
        _coded(table, name) for name in wanted.names if name != "value"
    )
    values = numbers(table.column("value").fill_null(np.nan))
    lost = np.array([reason is not None for reason in reasons], dtype=bool)[why]
    found: dict[Key, dict[str, Scores]] = {}
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    for *key, measure, rows in _groups(named):
        kept, gone = rows[~lost[rows]], rows[lost[rows]]
        query_ids = _texts(codes[kept], texts)
        found.setdefault(tuple(key), {})[measure] = Scores(
            measure,
            same.setdefault(query_ids, query_ids),
            values[kept],
            {
                reason: _texts(codes[gone[why[gone] == code]], texts)
                for code in dict.fromkeys(why[gone].tolist())
                if (reason := reasons[code]) is not None
            },
        )
    return found


def _coded(table: pa.Table, name: str) -> tuple[NDArray[np.int32], list[Any]]:
    """Return a column of texts as codes, and the text of each code, None for what is not given."""
    column = table.column(name).combine_chunks()
    texts = [*map(intern, column.dictionary.to_pylist()), *[None] * bool(column.null_count)]
    code = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    each = np.fromiter(map(code.__getitem__, texts), np.int32, len(texts))
    return each[numbers(column.indices.fill_null(-1))], list(code)


def _texts(codes: NDArray[np.int32], texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(texts.__getitem__, codes.tolist()))


def _groups(columns: Sequence[tuple[NDArray[np.int32], list[str]]]) -> Iterator[tuple[Any, ...]]:
    """Yield each combination of texts in the order they come, and last its rows, rising."""
    whole = np.zeros(1, dtype=np.int64)
    for codes, texts in columns:
        whole = whole * len(texts) + codes.astype(np.int64)
    _, first, of = np.unique(whole, return_index=True, return_inverse=True)
    group = np.argsort(np.argsort(first))[of]
    for rows in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        if len(rows):
            yield *(texts[codes[rows[0]]] for codes, texts in columns), rows


@cache
def score_file(key_names: Key) -> Artifact[ScoreTable]:
    """Declare a table of scores; undefined values are null and carry their reason."""
    codec = partial(_scores_in, key_names), partial(_scores_bytes, key_names)
    return Artifact("a score table", *codec, remedy="Run again: dvc repro", keep=2)


ARM_SCORES, PAIR_SCORES = score_file(ARM), score_file(PAIR)
CLASS_COLUMNS = pa.schema([(name, pa.string()) for name in (*PAIR, "query_id", "class")])
DEPTH = "depth"
"""Of RBO, the taus and the classes: the deepest of ``compare.depths``."""


ByQuery = tuple[tuple[str, ...], tuple[str, ...]]


class Classes(NamedTuple):
    """How two rankings of each query differ, by control and candidate."""

    of: Mapping[Key, ByQuery]
    depth: int | None


def _classes_bytes(found: Classes) -> bytes:
    about = {DEPTH: str(found.depth)} if found.depth is not None else {}
    schema = CLASS_COLUMNS.with_metadata(about)
    parts = [
        pa.record_batch(
            [
                *(pa.repeat(pa.scalar(arm, pa.string()), len(ids)) for arm in pair),
                pa.array(ids),
                pa.array(names),
            ],
            schema,
        )
        for pair, (ids, names) in found.of.items()
    ]
    return parquet_of(pa.Table.from_batches(parts, schema).combine_chunks(), compression="snappy")


@releasing()
def _classes_in(path: Path) -> Classes:
    table = table_of(path, CLASS_COLUMNS, coded=True)
    *pair, (codes, ids), (kind, names) = (_coded(table, name) for name in CLASS_COLUMNS.names)
    by_pair: dict[Key, ByQuery] = {
        (control, candidate): (_texts(codes[rows], ids), _texts(kind[rows], names))
        for control, candidate, rows in _groups(pair)
    }
    noted = (table.schema.metadata or {}).get(DEPTH.encode())
    return Classes(by_pair, int(noted) if noted else None)


CLASSES = Artifact("classes of queries", _classes_in, _classes_bytes)


Mean = Annotated[
    Estimate,
    PlainValidator(lambda row: Estimate(row["mean"], row["low"], row["high"], int(row["queries"]))),
    PlainSerializer(
        lambda one: {"mean": one.value, "low": one.low, "high": one.high, "queries": one.n}
    ),
]
Means = Mapping[str, Mapping[str, Mean]]
MEANS: Artifact[Means] = Json("means", Means)
SLICE_MEANS: Artifact[Mapping[str, Means]] = Json("means by slice", Mapping[str, Means])
