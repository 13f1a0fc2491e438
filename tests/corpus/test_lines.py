"""Lines with their numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.reading import numbered
from harness.corpus.trec import either
from tests.corpus.conftest import Written


def test_blank_lines_are_passed_over_and_still_counted(written: Written) -> None:
    assert list(numbered(written("a\n\n  \t\r\n b \r\n"))) == [(1, "a"), (4, " b ")]


def test_only_a_line_feed_ends_a_line(written: Written) -> None:
    odd = "a\u2028b\x85c\x0bd\x1ce"
    assert list(numbered(written(odd + "\nf"))) == [(1, odd), (2, "f")]


def test_a_byte_order_mark_is_no_text(written: Written) -> None:
    assert list(numbered(written("\ufeffa\n\ufeffb"))) == [(1, "a"), (2, "\ufeffb")]


def test_gz_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert [line for _, line in numbered(path)] == ["one", "two"]


def test_other_encodings_are_refused_with_line_and_hint(written: Written) -> None:
    path = written("good\nna\udcefve")
    with pytest.raises(BadFile, match=r"file:2: byte 3 of the line, 0xef, is not UTF-8.*iconv"):
        list(numbered(path))


@pytest.mark.parametrize("broken", [b"no archive", gzip.compress(b"a" * 99, mtime=0)[:-9]])
def test_a_broken_archive_is_named(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(broken)
    with pytest.raises(BadFile, match=r"a\.gz: the archive is broken"):
        list(numbered(path))


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="absent: missing file"):
        list(numbered(tmp_path / "absent"))
    with pytest.raises(BadFile, match="it is a folder"):
        list(numbered(tmp_path))


def test_the_plain_file_is_chosen_before_the_packed_one(tmp_path: Path) -> None:
    assert either(tmp_path, "c.jsonl").name == "c.jsonl"
    (tmp_path / "c.jsonl.gz").touch()
    assert either(tmp_path, "c.jsonl").name == "c.jsonl.gz"
    (tmp_path / "c.jsonl").touch()
    assert either(tmp_path, "c.jsonl").name == "c.jsonl"
