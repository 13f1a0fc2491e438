"""A library comes back from its tables as it was, and tells what stands around a chunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.kept import index
from engines.stacks.documents import collection
from engines.stacks.documents.formats import Page, Source, of_document
from engines.stacks.documents.library import Library
from engines.stacks.documents.texts import Cutting
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from tests.engines.documents.small import NOON, library_of, settings

WORDS = " ".join(f"word{n}" for n in range(60))
FIRST, SECOND = "first " * 25, "second " * 15
SOURCES = (
    Source("b.md", "b.md", "/docs/b.md", (Page(None, WORDS),)),
    Source("a.pdf", "a.pdf", "/docs/a.pdf", (Page(1, FIRST), Page(2, SECOND), Page(3, " "))),
    Source("empty", "empty", "/docs/empty", (Page(None, ""),)),
)


def library() -> Library:
    return library_of(SOURCES, Cutting(100, 20))


def test_what_was_taken_in_is_read() -> None:
    made = library()
    assert made.sources == {source.document_id: source for source in SOURCES}
    assert set(made.ingested.values()) == {NOON.isoformat()}
    assert [chunk.text for chunk in made.chunks] == made.texts
    assert library_of((), Cutting(100, 20)).chunks == ()


def test_chunks_come_in_the_order_of_their_ids_and_can_be_read_at_their_places() -> None:
    made = library()
    ids = [chunk.provenance.chunk_id for chunk in made.chunks]
    assert ids == sorted(ids)
    assert ids[:2] == ["a.pdf#000000", "a.pdf#000001"]
    for chunk in made.chunks:
        assert made.read(chunk.provenance) == chunk.text
    assert made.of_document["a.pdf"] == [0, 1, 2]
    assert not {"empty", "gone"} & made.of_document.keys()


def test_what_stands_around_a_chunk_joins_it_without_repetition() -> None:
    made = library()
    texts = [made.chunks[n] for n in made.of_document["b.md"]]
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
    first, second, *_ = (made.chunks[n] for n in made.of_document["a.pdf"])
    assert (second.provenance.page, second.provenance.page_end) == (1, 2)
    whole = " ".join(f"{FIRST} {SECOND}".split())
    for text in (
        f"{first.text} {made.around(first)[1]}",
        f"{made.around(second)[0]} {second.text}",
    ):
        assert whole.startswith(" ".join(text.split()))


def test_an_id_names_one_document(tmp_path: Path) -> None:
    words = settings(tier="free", embedder="", sparse="")
    with pytest.raises(ValueError, match=r"two documents have the id 'b\.md'"):
        collection.build((SOURCES[0], SOURCES[0]), tmp_path, words, tmp_path)


def test_a_title_is_the_first_paragraph_and_half_a_pair_is_mended() -> None:
    source = of_document(Document("d", "A title", "Its \ud800 text"))
    assert source.pages == (Page(None, "A title\n\nIts \ufffd text"),)
    assert of_document(Document("d", "", "only")).pages[0].text == "only"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0"])
def test_an_index_that_is_missing_or_broken_is_not_ready(content: bytes, tmp_path: Path) -> None:
    words = settings(tier="free", embedder="", sparse="")
    for at in range(2):
        if at:
            (tmp_path / index.FILE).write_bytes(content)
        with (
            pytest.raises(IndexNotReady, match="Build it again: harness stage index"),
            collection.opened(tmp_path, words, "broken"),
        ):
            pass
