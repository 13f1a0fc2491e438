"""Files are read within bounds, and what is wrong with one is named by its line."""

from __future__ import annotations

import gzip
import os
import socket
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core import digest, reading
from harness.core.errors import BadFile
from harness.core.formats import json_file, toml_file
from harness.core.reading import (
    MAX_LINE_BYTES,
    UNPACKED_ANYWAY,
    Malformed,
    numbered,
    opened,
    text_of,
    whole,
)
from harness.corpus.parquet import table_of


def all_of(path: Path) -> list[tuple[int, str]]:
    return list(numbered(path))


@pytest.mark.parametrize("read", [all_of, whole, text_of, opened, digest.of_file])
def test_only_regular_files_are_read(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path, is_a in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device"),
                           (tmp_path, "a folder")):  # fmt: skip
            with pytest.raises((Malformed, BadFile), match=f"it is {is_a}, and no regular file"):
                read(path)
        with pytest.raises((OSError, BadFile)):
            read(tmp_path / "socket")
    with pytest.raises((FileNotFoundError, BadFile)):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    ("raw", "line", "says"),
    [
        ("Ünïcode\n".encode("utf-16"), 1, "it is UTF-16"),
        ("Ünïcode\n".encode("utf-32"), 1, "it is UTF-32"),
        ("a\nb".encode("utf-16-le"), 1, "NUL byte, so it is UTF-16 or no text"),
        (b"fine\n\x00", 2, "NUL byte"),
        (b"fine\ncaf\xe9\n", 2, "byte 4 of the line, 0xe9, is not UTF-8"),
        (b"half \xed\xa0\x80", 1, "0xed, is not UTF-8"),
        (b"\xff", 1, "0xff, is not UTF-8"),
    ],
)
def test_another_encoding_is_named(tmp_path: Path, raw: bytes, line: int, says: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(BadFile, match=says) as told:
        all_of(path)
    assert told.value.line == line
    with pytest.raises(Malformed, match=says) as malformed:
        text_of(path)
    assert malformed.value.line == line


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb")
    assert text_of(tmp_path / "file") == "a\r\n\ufeffb"
    assert all_of(tmp_path / "file") == [(1, "a"), (2, "\ufeffb")]


def peak(path: Path) -> int:
    """Read until it is refused; give the bytes that took."""
    tracemalloc.start()
    try:
        with pytest.raises(BadFile, match="more than") as told:
            all_of(path)
        assert told.value.line is not None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_without_an_end_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        for _ in range(2 * MAX_LINE_BYTES >> 20):
            file.write(bytes(1 << 20))
    assert peak(path) < 4 * MAX_LINE_BYTES


def test_a_small_archive_of_one_long_line_costs_no_more_either(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 17
    assert peak(path) < 4 * MAX_LINE_BYTES


def test_an_archive_that_unpacks_to_much_more_is_a_bad_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "UNPACKED_ANYWAY", 1 << 16)
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(b"a line\n" * (1 << 15)))
    assert peak(path) < 1 << 22
    monkeypatch.setattr(reading, "UNPACKED_ANYWAY", 1 << 20)
    assert len(all_of(path)) == 1 << 15


def test_a_file_read_whole_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert whole(tmp_path / "file", most=5) == b"12345"
    with pytest.raises(Malformed, match="it has more than 4 bytes"):
        whole(tmp_path / "file", most=4)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=80), packed=st.booleans())
def test_any_bytes_are_lines_or_a_named_fault(tmp_path: Path, raw: bytes, *, packed: bool) -> None:
    path = tmp_path / ("file.gz" if packed else "file")
    path.write_bytes(raw)
    with suppress(BadFile):
        found = all_of(path)
        if not packed:
            text = raw.decode().removeprefix("\ufeff")
            assert [line for _, line in found] == [
                one.rstrip("\r\n") for one in text.split("\n") if one.strip()
            ]


def test_a_reader_that_says_no_more_of_a_file_names_it_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file"
    broken: list[tuple[Callable[[Path], object], bytes]] = [
        (json_file, b'{"a": 1,\n"a"}'),
        (toml_file, b"\na = "),
        (text_of, b"\n\xff"),
    ]
    for read, raw in broken:
        path.write_bytes(raw)
        with pytest.raises(Malformed) as told:
            read(path)
        assert str(told.value.told()).startswith(f"{path}:2: ")
    with pytest.raises(Malformed) as of_table:
        table_of(path, pa.schema([]))
    assert of_table.value.path == path


@pytest.mark.parametrize("beginning", [0, 10_000], ids=["whole", "but-its-beginning"])
@pytest.mark.parametrize("read", [whole, digest.of_file, text_of])
def test_a_file_that_is_all_hole_is_refused(
    tmp_path: Path, read: Callable[[Path], object], beginning: int
) -> None:
    """A terabyte that takes no room on the disk; to digest it took a quarter of an hour."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"x" * beginning)
        file.flush()
        os.fsync(file.fileno())
        file.truncate(1 << 40)
    with pytest.raises((Malformed, BadFile), match="it has 1099511627776 bytes, of which the disk"):
        read(path)


def test_a_file_system_that_counts_no_blocks_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(UNPACKED_ANYWAY + 1))
    uncounted = os.stat_result((*path.stat()[:10],), {"st_blocks": 0})
    with mock.patch("os.fstat", return_value=uncounted), opened(path) as file:
        assert len(file.read()) == UNPACKED_ANYWAY + 1


@pytest.mark.parametrize("read", [whole, digest.of_file, text_of])
def test_a_file_that_breaks_while_it_is_read_is_named(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "file"
    path.symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match="Input/output error") as told:
        read(path)
    assert told.value.filename == str(path)


def test_what_is_no_regular_file_is_named_where_nobody_says_more(tmp_path: Path) -> None:
    with pytest.raises(Malformed) as told:
        opened(tmp_path)
    assert str(told.value.told()).startswith(f"{tmp_path}: it is a folder")
