"""Digests: the same for the same, another for anything else, and the same tomorrow."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core import digest, files
from harness.core.records import Document, Query

DOCUMENT = Document("d1", "Title", "Text é", {"year": 1999, "kind": None})
QUERY = Query("q1", "what?", ("natural",), "i1")


def test_published_values(tmp_path: Path) -> None:
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest.of_bytes(b"abc") == abc
    (tmp_path / "abc").write_bytes(b"abc")
    assert digest.of_file(tmp_path / "abc") == abc


def test_a_file_is_read_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def opened(path: Path) -> IO[bytes]:
        read.append(path)
        return path.open("rb")

    monkeypatch.setattr(digest, "opened", opened)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    about = path.stat()
    time.sleep(2 * digest.SETTLED_NS / 1e9)
    assert digest.of_file(path) == digest.of_file(path) == digest.of_bytes(b"old")
    assert read == [path]
    path.write_bytes(b"new")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    time.sleep(2 * digest.SETTLED_NS / 1e9)
    assert digest.of_file(path) == digest.of_bytes(b"new")


def test_a_change_within_one_tick_of_the_clock_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    about = path.stat()
    monkeypatch.setattr(time, "time_ns", lambda: about.st_ctime_ns + 1)
    monkeypatch.setattr(Path, "stat", lambda _: about)
    assert digest.of_file(path) == digest.of_bytes(b"old")
    path.write_bytes(b"new")
    assert digest.of_file(path) == digest.of_bytes(b"new")


def test_what_took_the_place_of_a_written_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers at once: the one who is overtaken must not take the other's file for its own."""
    path, real = tmp_path / "file", Path.replace

    def overtaken(beside: Path, to: Path) -> Path:
        found = real(beside, to)
        (tmp_path / "other").write_bytes(b"new")
        real(tmp_path / "other", to)
        return found

    monkeypatch.setattr(Path, "replace", overtaken)
    files.write_bytes(path, b"old")
    assert digest.of_file(path) == digest.of_bytes(b"new")


def test_values_are_the_same_from_day_to_day() -> None:
    as_json = '["d1","Title","Text é",{"kind":null,"year":1999}]'
    each = hashlib.sha256(as_json.encode()).hexdigest()
    assert digest.of_documents([DOCUMENT]) == hashlib.sha256(each.encode()).hexdigest()
    as_json = '[["q1","what?",["natural"],"i1"]]'
    assert digest.of_queries([QUERY]) == hashlib.sha256(as_json.encode()).hexdigest()


@pytest.mark.parametrize(
    "changed",
    [
        replace(DOCUMENT, doc_id="d2"),
        replace(DOCUMENT, title="Titl", text="eText é"),
        replace(DOCUMENT, text=""),
        replace(DOCUMENT, metadata={}),
        replace(DOCUMENT, metadata={"year": 1999.5, "kind": None}),
        replace(DOCUMENT, metadata={"year": "1999", "kind": None}),
    ],
)
def test_every_part_of_a_document_counts(changed: Document) -> None:
    assert digest.of_documents([changed]) != digest.of_documents([DOCUMENT])


@pytest.mark.parametrize(
    "changed",
    [
        replace(QUERY, query_id="q2"),
        replace(QUERY, text="what"),
        replace(QUERY, slices=()),
        replace(QUERY, intent=None),
    ],
)
def test_every_part_of_a_query_counts(changed: Query) -> None:
    assert digest.of_queries([changed]) != digest.of_queries([QUERY])


def test_the_order_of_documents_counts_and_that_of_metadata_does_not() -> None:
    other = replace(DOCUMENT, doc_id="d2")
    assert digest.of_documents([DOCUMENT, other]) != digest.of_documents([other, DOCUMENT])
    turned = replace(DOCUMENT, metadata={"kind": None, "year": 1999})
    assert digest.of_documents([turned]) == digest.of_documents([DOCUMENT])


def test_documents_pass_by_unchanged() -> None:
    watch = digest.DocumentsDigest()
    assert list(watch.watch([DOCUMENT, DOCUMENT])) == [DOCUMENT, DOCUMENT]
    assert watch.count == 2
    assert watch.sha256 == digest.of_documents([DOCUMENT, DOCUMENT])
    assert digest.DocumentsDigest().sha256 == digest.of_documents([])


def test_files_count_by_name_and_bytes_in_any_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    before = digest.of_files([one, two])
    assert before == digest.of_files([two, one])
    two.write_bytes(b"3")
    assert digest.of_files([one, two]) != before
    assert digest.of_files([one]) != before
    two.write_bytes(b"1")
    assert digest.of_files([one]) != digest.of_files([two])


def test_a_file_longer_than_a_chunk(tmp_path: Path) -> None:
    data = bytes(range(256)) * (digest.CHUNK_BYTES // 256) + b"end"
    (tmp_path / "long").write_bytes(data)
    assert digest.of_file(tmp_path / "long") == digest.of_bytes(data)


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=5))
def test_the_order_of_keys_is_of_no_account(value: dict[str, object]) -> None:
    assert digest.of_json(value) == digest.of_json(dict(reversed(value.items())))
