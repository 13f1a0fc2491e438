"""Parquet files as tables, within bounds.

Sizes come from row groups: where the statistics of a column contradict its schema, pyarrow 26 ends
the process in ``RowGroupMetaData.column``, and raises an error where its values are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from harness.core.reading import Malformed, naming, opened

P = ParamSpec("P")
T = TypeVar("T")
MAX_UNPACKED = 1_000
"""Times its own size that the values of a file may take; of a column they are often equal."""
UNPACKED_ANYWAY = 256 << 20
"""Bytes that the values of any file may take."""
VALUE_BYTES = 8


class _File(NamedTuple):
    parquet: pq.ParquetFile
    schema: pa.Schema
    most: int


def table_of(
    path: Path, wanted: pa.Schema, nullable: Container[str] = (), *, coded: bool = False
) -> pa.Table:
    """Return all columns of the file, and its metadata in the schema."""
    with _opened(path) as file:
        _check_columns(file.schema, wanted)
        table = _whole(file, coded=coded)
    for name in wanted.names:
        if name not in nullable and table.column(name).null_count:
            raise Malformed(f"{name} is not given in every row")
    return table


def parquet_of(table: pa.Table, *, compression: str = "zstd", **how: int) -> bytes:
    """Return a table as a file has it; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=compression, **how)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def releasing(load: Callable[P, T]) -> Callable[P, T]:
    """Return to the system what pyarrow keeps of tables that are gone after ``load``."""

    @wraps(load)
    def loading(*given: P.args, **named: P.kwargs) -> T:
        try:
            return load(*given, **named)
        finally:
            pa.default_memory_pool().release_unused()

    return loading


def numbers(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return the numbers of a column that has one in each row.

    ``to_numpy`` gives the same, but imports pandas for it.
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.from_dlpack(whole)


def _whole(file: _File, *, coded: bool) -> pa.Table:
    groups = range(file.parquet.num_row_groups)
    _check(file, groups)
    parts = [_group(file, at, None, coded=coded) for at in groups]
    whole = pa.concat_tables(parts) if parts else _plain(file, file.parquet.read(), coded=coded)
    return whole.unify_dictionaries() if coded else whole


def _check_columns(schema: pa.Schema, wanted: pa.Schema) -> None:
    if lacking := set(wanted.names) - set(schema.names):
        raise Malformed(f"it lacks {sorted(lacking)}")
    for column in wanted:
        if schema.names.count(column.name) > 1:
            raise Malformed(f"it has {column.name} twice")
        if (its := schema.field(column.name).type) != column.type:
            raise Malformed(f"{column.name} is {its} instead of {column.type}")


def row_groups(path: Path, wanted: pa.Schema) -> Iterator[pa.Table]:
    """Yield the columns of ``wanted`` of a file of any length, a row group at a time."""
    with _opened(path) as file:
        _check_columns(file.schema, wanted)
        for at in range(file.parquet.num_row_groups):
            _check(file, [at])
            yield _group(file, at, wanted.names)


@contextmanager
def _opened(path: Path) -> Iterator[_File]:
    """Open a file so that a text which comes again is kept once, however often it does."""
    with naming(path), opened(path) as file:
        most = max(UNPACKED_ANYWAY, MAX_UNPACKED * os.fstat(file.fileno()).st_size)
        try:
            about = pq.read_metadata(file)
            columns = [about.schema.column(at) for at in range(about.num_columns)]
            texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
            schema = about.schema.to_arrow_schema()
            for said in (schema.metadata or {}).items():
                b"".join(said).decode()
            with pq.ParquetFile(file, metadata=about, read_dictionary=texts) as found:
                yield _File(found, schema, most)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as exc:
            raise Malformed(str(exc)) from exc


def _check(file: _File, groups: Sequence[int]) -> None:
    """Check, before they are read, that the values of row groups have a bound."""
    about = file.parquet.metadata
    found = [about.row_group(at) for at in groups]
    rows = VALUE_BYTES * about.num_columns
    size = sum(rows * one.num_rows + max(0, one.total_byte_size) for one in found)
    if size > file.most or any(one.num_rows < 0 for one in found):
        raise Malformed(f"its values take {size} bytes, more than {file.most}")


def _group(file: _File, at: int, columns: list[str] | None, *, coded: bool = False) -> pa.Table:
    return _plain(file, file.parquet.read_row_group(at, columns=columns), coded=coded)


def _plain(file: _File, table: pa.Table, *, coded: bool) -> pa.Table:
    """Write out the texts of columns that are no dictionary, where there is room."""
    for at, name in enumerate(table.schema.names):
        field, column = file.schema.field(name), table.column(at)
        if field.type != column.type and not coded:
            if (size := sum(map(_text_bytes, column.chunks))) > file.most:
                raise Malformed(f"the texts of {name} take {size} bytes, more than {file.most}")
            table = table.set_column(at, field, column.cast(field.type))
    table.validate(full=True)
    return table.replace_schema_metadata(file.schema.metadata)


def _text_bytes(chunk: pa.Array) -> int:
    """Return the bytes of texts that are written out, or, where that is few, at most so many."""
    while isinstance(chunk, pa.ListArray):
        chunk = chunk.values
    if not isinstance(chunk, pa.DictionaryArray):
        return int(chunk.nbytes)
    most: int = len(chunk) * chunk.dictionary.nbytes
    if most <= UNPACKED_ANYWAY:
        return most
    import pyarrow.compute as pc

    lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
    return int(pc.sum(lengths).as_py() or 0)
