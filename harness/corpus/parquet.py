"""Parquet files as tables, within bounds."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from harness.core.reading import Malformed, naming, opened

TAIL = 8
"""Bytes behind the footer: its length and the magic."""
MAX_DEPTH = 32
MAX_FOOTER_BYTES = 4 << 20
"""Thousands of row groups; what is made of a footer takes many times its bytes."""
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE = range(1, 8)
BINARY, LIST, SET, MAP, STRUCT, UUID = range(8, 14)
NUMBERS = {I16, I32, I64}
WIDTHS = {BYTE: 1, DOUBLE: 8, UUID: 16}
ROW_GROUPS, COLUMNS, META_DATA, NUM_VALUES, TOTAL_UNCOMPRESSED_SIZE = 4, 1, 3, 5, 6
LONG_LIST = 15
WORD = 1 << 64


class ColumnSize(NamedTuple):
    """Of one column in one row group, as the footer has it."""

    values: int
    uncompressed_bytes: int


class _Value(NamedTuple):
    kind: int
    number: int = 0
    items: tuple[_Value, ...] = ()
    fields: tuple[tuple[int, _Value], ...] = ()

    def field(self, number: int, kind: int) -> _Value:
        """Give the field; its last one of the right type, as readers made by Thrift do."""
        of = [value for at, value in self.fields if at == number and value.kind == kind]
        return of[-1] if of else _Value(kind)


def column_sizes(file: IO[bytes]) -> list[list[ColumnSize]]:
    """Give the sizes of each column, by row group, and leave the file where it was.

    Raises:
        Malformed: the file has no footer, or it is not a struct of the compact protocol.
    """
    at, size = file.tell(), file.seek(0, os.SEEK_END)
    try:
        file.seek(max(0, size - TAIL))
        length = int.from_bytes(file.read(4), "little")
        if length > min(size - TAIL, MAX_FOOTER_BYTES):
            raise Malformed(f"its footer of {length} bytes is longer than the file, or than any")
        file.seek(size - TAIL - length)
        footer = _Reader(file.read(length)).value(STRUCT, 0)
    except (IndexError, RecursionError) as exc:
        raise Malformed("its footer breaks off") from exc
    finally:
        file.seek(at)
    return [
        [_size(chunk.field(META_DATA, STRUCT)) for chunk in group.field(COLUMNS, LIST).items]
        for group in footer.field(ROW_GROUPS, LIST).items
    ]


def _size(about: _Value) -> ColumnSize:
    counted = about.field(NUM_VALUES, I64), about.field(TOTAL_UNCOMPRESSED_SIZE, I64)
    return ColumnSize(*(value.number for value in counted))


@dataclass(slots=True)
class _Reader:
    """Bytes, and how far they are read."""

    data: bytes
    at: int = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        found, shift = 0, 0
        while (byte := self.byte()) >= 0x80:  # noqa: PLR2004  another byte follows
            found |= (byte & 0x7F) << shift
            shift = min(shift + 7, 70)
        return (found | byte << shift) % WORD

    def number(self) -> int:
        zigzag = self.varint()
        return (zigzag >> 1) ^ -(zigzag & 1)

    def skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.data):
            raise IndexError

    def value(self, kind: int, depth: int) -> _Value:
        if depth > MAX_DEPTH:
            raise RecursionError
        if kind in NUMBERS:
            return _Value(kind, self.number())
        if kind in WIDTHS:
            self.skip(WIDTHS[kind])
        elif kind == BINARY:
            self.skip(self.varint())
        elif kind in {LIST, SET}:
            return self._list(kind, depth + 1)
        elif kind == MAP:
            self._map(depth + 1)
        elif kind == STRUCT:
            return self._struct(depth + 1)
        elif kind not in {TRUE, FALSE}:
            raise Malformed(f"its footer has a value of the unknown type {kind}")
        return _Value(kind)

    def _struct(self, depth: int) -> _Value:
        fields: list[tuple[int, _Value]] = []
        number = 0
        while header := self.byte():
            number = number + (header >> 4) if header >> 4 else self.number()
            fields.append((number, self.value(header & 15, depth)))
        return _Value(STRUCT, fields=tuple(fields))

    def _list(self, kind: int, depth: int) -> _Value:
        header = self.byte()
        count = header >> 4 if header >> 4 < LONG_LIST else self.varint()
        of = header & 15
        if of in {TRUE, FALSE}:
            self.skip(count)
            return _Value(kind)
        if count > len(self.data):
            raise IndexError
        return _Value(kind, items=tuple(self.value(of, depth) for _ in range(count)))

    def _map(self, depth: int) -> None:
        count = self.varint()
        kinds = self.byte() if count else 0
        if count > len(self.data):
            raise IndexError
        for _ in range(count):
            for of in (kinds >> 4, kinds & 15):
                if of in {TRUE, FALSE}:
                    self.skip(1)
                else:
                    self.value(of, depth)


MAX_UNPACKED = 1_000
"""Times its own size that the values of a file may take; of a column they are often equal."""
UNPACKED_ANYWAY = 256 << 20
"""Bytes that the values of any file may take."""
VALUE_BYTES = 8


class _File(NamedTuple):
    parquet: pq.ParquetFile
    schema: pa.Schema
    sizes: list[list[ColumnSize]]
    """Of each column, by row group."""
    most: int
    """Bytes that its values may take."""


def table_of(path: Path, wanted: pa.Schema, nullable: Container[str] = ()) -> pa.Table:
    """Give all columns of the file, and its metadata in the schema.

    The file has at least the columns of ``wanted``, of their types, and a value in each row except
    where ``nullable`` names the column.

    Raises:
        OSError: it cannot be read.
        Malformed: it is not Parquet, is beyond the bounds, or has other columns; a
            ``ValueError``.
    """
    with _opened(path) as file:
        _check_columns(file.schema, wanted)
        table = _whole(file)
    for name in wanted.names:
        if name not in nullable and table.column(name).null_count:
            raise Malformed(f"{name} is not given in every row")
    return table


def numbers(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return the numbers of a column that has one in each row.

    ``to_numpy`` gives the same, but imports pandas for it.
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.from_dlpack(whole)


def _whole(file: _File) -> pa.Table:
    groups = range(file.parquet.num_row_groups)
    _check(file, groups)
    parts = [_group(file, at, None) for at in groups]
    return pa.concat_tables(parts) if parts else _plain(file, file.parquet.read())


def _check_columns(schema: pa.Schema, wanted: pa.Schema) -> None:
    if lacking := set(wanted.names) - set(schema.names):
        raise Malformed(f"it lacks {sorted(lacking)}")
    for column in wanted:
        if schema.names.count(column.name) > 1:
            raise Malformed(f"it has {column.name} twice")
        if (its := schema.field(column.name).type) != column.type:
            raise Malformed(f"{column.name} is {its} instead of {column.type}")


def row_groups(path: Path, wanted: pa.Schema) -> Iterator[pa.Table]:
    """Yield the columns of ``wanted`` of a file of any length, a row group at a time.

    Raises:
        OSError: it cannot be read.
        Malformed: as ``table_of``, of one row group.
    """
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
                yield _File(found, schema, column_sizes(file), most)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as exc:
            raise Malformed(str(exc)) from exc


def _check(file: _File, groups: Sequence[int]) -> None:
    if len(file.sizes) != file.parquet.num_row_groups:
        raise Malformed("its footer can be read in two ways")
    chunks = [size for at in groups for size in file.sizes[at]]
    size = sum(VALUE_BYTES * one.values + max(0, one.uncompressed_bytes) for one in chunks)
    if size > file.most or any(one.values < 0 for one in chunks):
        raise Malformed(f"its values take {size} bytes, more than {file.most}")


def _group(file: _File, at: int, columns: list[str] | None) -> pa.Table:
    return _plain(file, file.parquet.read_row_group(at, columns=columns))


def _plain(file: _File, table: pa.Table) -> pa.Table:
    """Write out the texts of columns that are no dictionary, where there is room."""
    for at, name in enumerate(table.schema.names):
        field, column = file.schema.field(name), table.column(at)
        if field.type != column.type:
            if (size := sum(map(_text_bytes, column.chunks))) > file.most:
                raise Malformed(f"the texts of {name} take {size} bytes, more than {file.most}")
            table = table.set_column(at, field, column.cast(field.type))
    table.validate(full=True)
    return table.replace_schema_metadata(file.schema.metadata)


def _text_bytes(chunk: pa.Array) -> int:
    """Give the bytes of texts that are written out, or, where that is few, at most so many."""
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
