"""What the footer of a Parquet file says of its columns, read without pyarrow.

Where the statistics of a column contradict its schema, ``RowGroupMetaData.column`` of pyarrow ends
the whole process. Reading the values raises an error instead.
The sizes must be known before any value is read. The footer is a struct of Thrift's compact
protocol (thrift-compact-protocol.md of Apache Thrift; parquet.thrift of Apache Parquet).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, NamedTuple

from harness.core.reading import Malformed

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
