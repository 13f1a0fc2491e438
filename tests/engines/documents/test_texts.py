"""Texts cut into chunks: where they stand, how they are cited, and the tables that keep them."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfWriter

from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines.kept import index
from harness_engines.stacks.documents import collection
from harness_engines.stacks.documents.formats import DocumentText, TextPage, of_document
from harness_engines.stacks.documents.library import Library
from harness_engines.stacks.documents.texts import (
    ChunkPlace,
    Cutting,
    NumberSpan,
    TextLayout,
    chunk_id,
    chunks,
    stretches,
)
from tests.engines.documents.small import NOON, library_of, read_file, read_folder
from tests.engines.documents.small import settings as small
from tests.make.pdf import pdf

SPECIFIED = Cutting(2000, 200)
CUTTING = st.integers(20, 60).flatmap(
    lambda size: st.builds(
        Cutting,
        st.just(size),
        st.integers(0, (size - 1) // 2),
        st.sampled_from(["break", "anywhere"]),
    )
)
TEXT = st.text(st.sampled_from("ab .!\n\r\t\u00e9\u2003\U0001f600\u0301"), max_size=400) | st.text(
    max_size=200
)


def source(*pages: str) -> DocumentText:
    numbered = tuple(TextPage(number, text) for number, text in enumerate(pages, start=1))
    return DocumentText("doc", "doc.pdf", "/somewhere/doc.pdf", numbered)


@settings(max_examples=100)
@given(text=TEXT, cutting=CUTTING)
def test_chunks_cover_the_text_in_order_within_their_bounds(text: str, cutting: Cutting) -> None:
    found = list(stretches(text, cutting))
    covered = {at for start, end in found for at in range(start, end)}
    assert {at for at, one in enumerate(text) if not one.isspace()} <= covered
    for one, other in itertools.pairwise(found):
        assert one[0] < other[0]
        assert one[1] < other[1]
    found = list(stretches(text, cutting))
    for start, end in found[:-1]:
        assert end - start <= cutting.characters
    for start, end in found[-1:]:
        assert end - start <= cutting.characters + cutting.overlap
    for one, other in itertools.pairwise(found):
        assert one[1] - other[0] <= cutting.overlap
    for chunk in chunks(source(text), cutting):
        place = chunk.provenance
        assert text[place.char_start : place.char_end] == chunk.text
        assert chunk.text == chunk.text.strip() != ""


@settings(max_examples=50)
@given(text=TEXT, cutting=CUTTING)
def test_lines_are_those_of_the_first_and_last_character(text: str, cutting: Cutting) -> None:
    layout = TextLayout.of(text)
    for chunk in chunks(source(text), cutting):
        place = chunk.provenance
        last = place.char_end - 1
        assert place.lines.first == layout.lines(place.char_start, place.char_start + 1).first
        assert place.lines.last == layout.lines(last, last + 1).last
        assert place.paragraphs.first >= 1
        assert place.paragraphs.last >= place.paragraphs.first


def test_a_chunk_ends_with_a_paragraph_else_a_sentence_else_a_word_else_anywhere() -> None:
    cutting = Cutting(40, 15)
    rest = "z" * 60
    for head, ended in {
        "a" * 20 + " bc. de\n\nfg. hi jk ": "de",
        "a" * 20 + " bc. de fg. hi jkl mn ": "fg.",
        "a" * 20 + " bc de fg hi jkl mn ": "mn",
        "a" * 90: "a" * 40,
    }.items():
        start, end = next(stretches(head + rest, cutting))
        assert (head + rest)[start:end].endswith(ended)
    assert list(stretches("x" * 2200, SPECIFIED)) == [(0, 2200)]
    assert list(stretches("x" * 2201, SPECIFIED)) == [(0, 2000), (1800, 2201)]
    text = "word " * 2000
    found = list(stretches(text, SPECIFIED))
    assert [end - start for start, end in found[:-1]] == [1999] * (len(found) - 1)
    assert all(one[1] - other[0] == 199 for one, other in itertools.pairwise(found))
    text = "word " * 60
    assert list(stretches(text, Cutting(42, 10, "anywhere")))[:2] == [(0, 42), (32, 74)]
    whole = list(stretches(text, Cutting(42, 10)))
    assert all(start % 5 == 0 and end % 5 == 4 for start, end in whole)


def test_chunks_are_numbered_through_all_pages() -> None:
    (found,) = chunks(source("The first\n\npage and", "its end.\n\nMore"), SPECIFIED)
    place = found.provenance
    assert found.text == "The first\n\npage and\nits end.\n\nMore"
    assert (place.page, place.page_end) == (1, 2)
    assert (place.char_start, place.char_end) == (0, len("its end.\n\nMore"))
    assert (place.paragraphs, place.lines) == ((1, 2), (1, 3))
    assert place.cite() == "doc.pdf, p. 1, para. 1 to p. 2, para. 2"
    assert place.cite_short() == "doc, p. 1-2"
    pages = source("first page.", " \n ", "Third page\n\nits end")
    places = [chunk.provenance for chunk in chunks(pages, SPECIFIED)]
    assert [(p.page, p.chunk_index, p.chunk_id) for p in places] == [
        (1, 0, "doc#000000"),
        (3, 1, "doc#000001"),
    ]
    assert places[1].paragraphs == (1, 2)
    assert places[1].char_start == 0
    box = replace(source("Subject: tea,", "salt"), name="all.mbox")
    assert [(chunk.text, chunk.provenance.cite()) for chunk in chunks(box, SPECIFIED)] == [
        ("Subject: tea,", "all.mbox, mail 1, para. 1"),
        ("salt", "all.mbox, mail 2, para. 1"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "pages"),
    [
        ("It ends.", "and so on", [1, 2]),
        ("A title", "Another title", [1, 2]),
        ("words, ", "and more", [1]),
        ("inter-\n", "national", [1]),
        ("东京", "大学。", [1]),
        ("东京。", "大学", [1, 2]),
        ("page", " ", [1]),
        ("", "page", [2]),
        ("page", "12", [1, 2]),
    ],
)
def test_only_a_sentence_joins_pages(before: str, after: str, pages: list[int]) -> None:
    assert [chunk.provenance.page for chunk in chunks(source(before, after), SPECIFIED)] == pages


@given(st.lists(st.text("ab \n."), max_size=6), st.sampled_from([(20, 5), (40, 19)]))
def test_every_chunk_is_read_at_its_place(pages: list[str], sizes: tuple[int, int]) -> None:
    made = source(*pages)
    library = library_of([made], Cutting(*sizes))
    for chunk in library.chunks:
        assert library.read(chunk.provenance) == chunk.text
    covered = "".join(chunk.text for chunk in chunks(made, Cutting(20, 0)))
    assert "".join(covered.split()) == "".join("".join(pages).split())


@given(st.lists(st.integers(0, 999_999), min_size=2, max_size=2))
def test_names_of_chunks_sort_as_their_text_stands(numbers: list[int]) -> None:
    low, high = sorted(numbers)
    assert chunk_id("doc", low) <= chunk_id("doc", high)
    assert re.fullmatch(r"doc#\d{6}", chunk_id("doc", low))


@pytest.mark.parametrize("text", ["", " \n\t\u2003 "])
def test_nothing_but_white_space_gives_no_chunk(text: str) -> None:
    assert list(chunks(source(text), SPECIFIED)) == []


LAYOUT_TEXT = "one\r\ntwo\r\n \t\r\nthree\n\n\n  four\rfive"


@pytest.mark.parametrize(
    ("word", "line", "paragraph"),
    [("one", 1, 1), ("two", 2, 1), ("three", 4, 2), ("four", 7, 3), ("five", 8, 3)],
)
def test_a_word_stands_in_its_line_and_paragraph(word: str, line: int, paragraph: int) -> None:
    start = LAYOUT_TEXT.index(word)
    layout = TextLayout.of(LAYOUT_TEXT)
    assert layout.lines(start, start + len(word)) == (line, line)
    assert layout.paragraphs(start, start + len(word)) == (paragraph, paragraph)


def test_a_stretch_names_its_first_and_its_last() -> None:
    layout = TextLayout.of(LAYOUT_TEXT)
    end = LAYOUT_TEXT.index("four") + 4
    assert layout.lines(0, end) == (1, 7)
    assert layout.lines(0, LAYOUT_TEXT.index("two")) == (1, 1)
    assert layout.paragraphs(0, end) == (1, 3)


@given(st.text("ab \n\r\t", max_size=60))
def test_lines_are_those_of_reading_with_universal_line_ends(text: str) -> None:
    layout = TextLayout.of(text)
    for at in range(len(text)):
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        expected = before.count("\n") + 1 - text[at - 1 : at + 1].count("\r\n")
        assert layout.lines(at, at + 1).first == expected


@given(st.text("ab \n\r", max_size=60))
def test_paragraphs_are_what_blank_lines_part(text: str) -> None:
    layout = TextLayout.of(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    held = [bool(line.strip()) for line in lines]
    starts = sum(now and not before for before, now in zip([False, *held], held, strict=False))
    assert len(layout.paragraph_starts) == starts


REPORT = ChunkPlace(
    document="Q3_Report.pdf",
    document_path="/originals/Q3_Report.pdf",
    document_id="abc-123",
    chunk_id="abc-123#000014",
    chunk_index=14,
    page=12,
    paragraphs=NumberSpan(8, 8),
    lines=NumberSpan(1, 4),
    char_start=24580,
    char_end=26580,
)


@pytest.mark.parametrize(
    ("place", "full", "short"),
    [
        (REPORT, "Q3_Report.pdf, p. 12, para. 8", "Q3_Report, p. 12"),
        (
            replace(REPORT, paragraphs=NumberSpan(8, 9)),
            "Q3_Report.pdf, p. 12, para. 8-9",
            "Q3_Report, p. 12",
        ),
        (
            replace(REPORT, document="notes.v2.md", page=None, lines=NumberSpan(3, 3)),
            "notes.v2.md, para. 8, l. 3",
            "notes.v2, l. 3",
        ),
        (replace(REPORT, page=None), "Q3_Report.pdf, para. 8, l. 1-4", "Q3_Report, l. 1-4"),
    ],
)
def test_a_citation_in_full_and_in_short(place: ChunkPlace, full: str, short: str) -> None:
    assert place.cite() == full
    assert place.cite_short() == short


TEXTS = {
    "unix.txt": "one\ntwo\n\nthree caf\u00e9 \U0001f600 four\n" * 40,
    "windows.md": "\ufeff# Title\r\n\r\nSome text of the file.\r\nAnd more. " * 40,
    "old.rst": "old mac\rline ends\r\rand a form\x0cfeed\x85next " * 40,
    "notes/deep.markdown": "zero\0width\u200bspaces\u2028and separators " * 40,
}
PAGES = [["The first page of a report.", "It has two lines."], [], ["Retention is at 94 per cent."]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    (tmp_path / "report.PDF").write_bytes(pdf(PAGES))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    return tmp_path


@pytest.mark.parametrize("cutting", [Cutting(2000, 200), Cutting(60, 20)])
def test_places_are_bytes_of_the_original_file(root: Path, cutting: Cutting) -> None:
    counted = 0
    for source in read_folder(root)[0]:
        for chunk in chunks(source, cutting):
            place = chunk.provenance
            path = Path(place.document_path)
            if place.page is None:
                original = path.read_bytes().decode("utf-8")
            else:
                original = source.pages[place.page - 1].text
            cited = original[place.char_start : place.char_end]
            assert cited.encode() == chunk.text.encode()
            counted += 1
    assert counted >= len(TEXTS) + 2


def test_pages_of_a_pdf_are_numbered_as_they_lie_there(root: Path) -> None:
    source = read_file(root / "report.PDF", "report")
    assert [page.number for page in source.pages] == [1, 2, 3]
    found = list(chunks(source, Cutting(2000, 200)))
    assert [chunk.provenance.page for chunk in found] == [1, 3]
    assert found[0].text == "\n".join(PAGES[0])
    assert found[0].provenance.lines == (1, 2)
    assert found[1].provenance.cite() == "report.PDF, p. 3, para. 1"
    sources, refused = read_folder(root)
    assert [source.document_id for source in sources] == sorted([*TEXTS, "report.PDF"])
    assert sources[0].name == "deep.markdown"
    assert not refused


def test_what_cannot_be_read_is_named_and_does_not_stop_the_rest(root: Path) -> None:
    (root / "latin.txt").write_bytes("first\ncaf\u00e9\n".encode("latin-1"))
    (root / "cut.pdf").write_bytes(pdf(PAGES)[:30])
    (root / "no.pdf").write_bytes(b"")
    (root / "blank.pdf").write_bytes(pdf([[]]))
    writer = PdfWriter(clone_from=root / "report.PDF")
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(root / "locked.pdf")
    sources, said = read_folder(root)
    assert len(sources) == len(TEXTS) + 1
    assert set(said) == {"latin.txt", "cut.pdf", "no.pdf", "blank.pdf", "locked.pdf"}
    assert said["latin.txt"].line == 2
    assert "UTF-8" in said["latin.txt"].problem
    assert "has no text" in said["blank.pdf"].problem
    assert all(fault.hint for fault in said.values())


WORDS = " ".join(f"word{n}" for n in range(60))
FIRST, SECOND = "first " * 25, "second " * 15
SOURCES = (
    DocumentText("b.md", "b.md", "/docs/b.md", (TextPage(None, WORDS),)),
    DocumentText(
        "a.pdf", "a.pdf", "/docs/a.pdf", (TextPage(1, FIRST), TextPage(2, SECOND), TextPage(3, " "))
    ),
    DocumentText("empty", "empty", "/docs/empty", (TextPage(None, ""),)),
)


def library() -> Library:
    return library_of(SOURCES, Cutting(100, 20))


def test_what_was_taken_in_is_read() -> None:
    made = library()
    assert made.sources == {source.document_id: source for source in SOURCES}
    assert set(made.ingested.values()) == {NOON.isoformat()}
    assert [chunk.text for chunk in made.chunks] == made.texts
    assert library_of((), Cutting(100, 20)).chunks == ()
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
    words = small(tier="free", embedder="", sparse="")
    with pytest.raises(ValueError, match=r"two documents have the id 'b\.md'"):
        collection.build((SOURCES[0], SOURCES[0]), tmp_path, words, tmp_path)
    source = of_document(Document("d", "A title", "Its \ud800 text"))
    assert source.pages == (TextPage(None, "A title\n\nIts \ufffd text"),)
    assert of_document(Document("d", "", "only")).pages[0].text == "only"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0"])
def test_an_index_that_is_missing_or_broken_is_not_ready(content: bytes, tmp_path: Path) -> None:
    words = small(tier="free", embedder="", sparse="")
    for at in range(2):
        if at:
            (tmp_path / index.FILE).write_bytes(content)
        with (
            pytest.raises(IndexNotReady, match="Build it again: harness stage index"),
            collection.opened(tmp_path, words, "broken"),
        ):
            pass
