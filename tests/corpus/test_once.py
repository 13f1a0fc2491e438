"""A file is parsed once while it stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.corpus.prepared import parsed_once


def test_a_file_is_parsed_again_where_its_bytes_changed_and_nothing_else(tmp_path: Path) -> None:
    parsed: list[tuple[str, str]] = []

    @parsed_once(keep=2)
    def read(path: Path, how: str) -> list[str]:
        parsed.append((path.read_text(), how))
        return [path.read_text()]

    path = tmp_path / "file"
    path.write_text("old")
    about = path.stat()
    assert read(path, "a") is read(path, "a")
    assert read(path, "b") == ["old"]
    path.write_text("new")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert read(path, "a") == ["new"]
    assert parsed == [("old", "a"), ("old", "b"), ("new", "a")]


def test_the_reader_says_why_a_file_cannot_be_read(tmp_path: Path) -> None:
    @parsed_once(keep=2)
    def read(path: Path) -> str:
        raise BadFile(path, "no such run", "Run again.")

    with pytest.raises(BadFile, match="no such run"):
        read(tmp_path / "missing")
