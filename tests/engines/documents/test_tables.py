"""A library comes back from disk as it was, and tells what stands around a chunk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.stacks.documents import library as documents_library
from engines.stacks.documents.formats import Page, Source, of_document
from engines.stacks.documents.library import Library, Times
from engines.stacks.documents.texts import Cutting
from harness.core.errors import IndexNotReady
from harness.core.records import Document

TIMES = Times("2026-01-15T14:29:48+00:00", "2026-01-15T14:30:00+00:00", None)
WORDS = " ".join(f"word{n}" for n in range(60))
FIRST, SECOND = "first " * 25, "second " * 15
SOURCES = (
    Source("b.md", "b.md", "/docs/b.md", (Page(None, WORDS),)),
    Source("a.pdf", "a.pdf", "/docs/a.pdf", (Page(1, FIRST), Page(2, SECOND), Page(3, " "))),
    Source("empty", "empty", "/docs/empty", (Page(None, ""),)),
)


def library() -> Library:
    return Library.of(SOURCES, Cutting(100, 20))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = library()
    documents_library.write(tmp_path, made, TIMES)
    read, times = documents_library.read(tmp_path)
    assert read.sources == made.sources
    assert read.chunks == made.chunks
    assert times == TIMES


def test_nothing_comes_back_as_nothing(tmp_path: Path) -> None:
    documents_library.write(tmp_path, Library.of((), Cutting(100, 20)), TIMES)
    read, _ = documents_library.read(tmp_path)
    assert read == Library({}, ())


def test_chunks_come_in_the_order_of_their_ids_and_can_be_read_at_their_places() -> None:
    made = library()
    ids = [chunk.provenance.chunk_id for chunk in made.chunks]
    assert ids == sorted(ids)
    assert ids[:2] == ["a.pdf#000000", "a.pdf#000001"]
    for chunk in made.chunks:
        assert made.read(chunk.provenance) == chunk.text
    assert made.of_document("a.pdf") == (0, 1, 2)
    assert made.of_document("empty") == made.of_document("gone") == ()


def test_what_stands_around_a_chunk_joins_it_without_repetition() -> None:
    made = library()
    texts = [made.chunks[n] for n in made.of_document("b.md")]
    for one, chunk, other in zip(texts, texts[1:], texts[2:], strict=False):
        before, after = made.around(chunk)
        assert before
        assert after
        assert one.text.startswith(before)
        assert other.text.endswith(after)
        assert f"{before} {chunk.text} {after}" in WORDS
    assert made.around(texts[0])[0] == ""
    assert made.around(texts[-1])[1] == ""


def test_what_stands_around_goes_on_over_the_end_of_a_page() -> None:
    made = library()
    first, second, *_ = (made.chunks[n] for n in made.of_document("a.pdf"))
    assert (second.provenance.page, second.provenance.page_end) == (1, 2)
    whole = " ".join(f"{FIRST} {SECOND}".split())
    for text in (
        f"{first.text} {made.around(first)[1]}",
        f"{made.around(second)[0]} {second.text}",
    ):
        assert whole.startswith(" ".join(text.split()))


def test_an_id_names_one_document() -> None:
    with pytest.raises(ValueError, match=r"two documents have the id 'b\.md'"):
        Library.of((SOURCES[0], SOURCES[0]), Cutting(100, 20))


def test_a_title_is_the_first_paragraph_and_half_a_pair_is_mended() -> None:
    source = of_document(Document("d", "A title", "Its \ud800 text"))
    assert source.pages == (Page(None, "A title\n\nIts \ufffd text"),)
    assert of_document(Document("d", "", "only")).pages[0].text == "only"


@pytest.mark.parametrize(
    "name", [documents_library.PAGES, documents_library.PLACES, documents_library.TIMES]
)
def test_a_file_that_is_missing_or_broken_is_not_ready(name: str, tmp_path: Path) -> None:
    documents_library.write(tmp_path, library(), TIMES)
    (tmp_path / name).write_bytes(b"PAR1")
    with pytest.raises(IndexNotReady, match="harness index"):
        documents_library.read(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(IndexNotReady):
        documents_library.read(tmp_path)


def test_a_place_outside_of_its_document_is_not_ready(tmp_path: Path) -> None:
    made = library()
    first = made.chunks[0]
    beyond = replace(first, provenance=replace(first.provenance, char_start=900, char_end=901))
    documents_library.write(tmp_path, replace(made, chunks=(beyond,)), TIMES)
    with pytest.raises(IndexNotReady, match="no text"):
        documents_library.read(tmp_path)


def test_a_table_of_another_document_is_not_ready(tmp_path: Path) -> None:
    documents_library.write(tmp_path, library(), TIMES)
    pages = pq.read_table(tmp_path / documents_library.PAGES)
    kept = pages.filter(pa.array([row != "b.md" for row in pages["document_id"].to_pylist()]))
    pq.write_table(kept, tmp_path / documents_library.PAGES)
    with pytest.raises(IndexNotReady):
        documents_library.read(tmp_path)
