"""Texts cut into chunks: where they stand, how they are cited, and the tables that keep them."""

import itertools
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.core.errors import IndexNotReady
from harness_engines.kept import index
from harness_engines.stacks.documents import collection
from harness_engines.stacks.documents.formats import DocumentText, TextPage
from harness_engines.stacks.documents.library import Library
from harness_engines.stacks.documents.texts import (
    Cutting,
    DocumentChunk,
    NumberSpan,
    chunks,
    layout_of,
    stretches,
)
from tests.engines.documents.small import library_of, read_folder
from tests.engines.documents.small import settings as small
from tests.make.files import pdf

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
@example(text="ab" * 100, cutting=Cutting(40, 15))
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
        assert text[chunk.char_start : chunk.char_end] == chunk.text
        assert chunk.text == chunk.text.strip() != ""


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
    (place,) = chunks(source("The first\n\npage and", "its end.\n\nMore"), SPECIFIED)
    assert place.text == "The first\n\npage and\nits end.\n\nMore"
    assert (place.page, place.page_end) == (1, 2)
    assert (place.char_start, place.char_end) == (0, len("its end.\n\nMore"))
    assert (place.paragraphs, place.lines) == ((1, 2), (1, 3))
    assert place.cite() == "doc.pdf, p. 1, para. 1 to p. 2, para. 2"
    assert place.cite_short() == "doc, p. 1-2"
    pages = source("first page.", " \n ", "Third page\n\nits end")
    places = [*chunks(pages, SPECIFIED)]
    assert [(p.page, p.index, p.id) for p in places] == [
        (1, 0, "doc#000000"),
        (3, 1, "doc#000001"),
    ]
    assert places[1].paragraphs == (1, 2)
    assert places[1].char_start == 0
    box = replace(source("Subject: tea,", "salt"), name="all.mbox")
    assert [(chunk.text, chunk.cite()) for chunk in chunks(box, SPECIFIED)] == [
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
    assert [chunk.page for chunk in chunks(source(before, after), SPECIFIED)] == pages


@given(st.text("ab \n\r\t", max_size=60))
def test_lines_are_those_of_reading_with_universal_line_ends(text: str) -> None:
    starts = layout_of(text).lines
    for at in range(len(text)):
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        expected = before.count("\n") + 1 - text[at - 1 : at + 1].count("\r\n")
        assert bisect_right(starts, at) == expected


REPORT = DocumentChunk(
    DocumentText("abc-123", "Q3_Report.pdf", "/originals/Q3_Report.pdf", ()),
    index=14,
    text="",
    page=12,
    page_end=12,
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
            replace(
                REPORT,
                source=replace(REPORT.source, name="notes.v2.md"),
                page=None,
                page_end=None,
                lines=NumberSpan(3, 3),
            ),
            "notes.v2.md, para. 8, l. 3",
            "notes.v2, l. 3",
        ),
        (
            replace(REPORT, page=None, page_end=None),
            "Q3_Report.pdf, para. 8, l. 1-4",
            "Q3_Report, l. 1-4",
        ),
    ],
)
def test_a_citation_in_full_and_in_short(place: DocumentChunk, full: str, short: str) -> None:
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
            original = Path(source.path).read_bytes().decode("utf-8", "replace")
            if chunk.page is not None:
                original = source.pages[chunk.page - 1].text
            cited = original[chunk.char_start : chunk.char_end]
            assert cited.encode() == chunk.text.encode()
            counted += 1
    assert counted >= len(TEXTS) + 2


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


def test_what_stands_around_a_chunk_joins_it_without_repetition() -> None:
    made = library()
    texts = [chunk for chunk in made.chunks if chunk.source.name == "b.md"]
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
    first, second, *_ = (chunk for chunk in made.chunks if chunk.source.name == "a.pdf")
    assert (second.page, second.page_end) == (1, 2)
    whole = " ".join(f"{FIRST} {SECOND}".split())
    for text in (
        f"{first.text} {made.around(first)[1]}",
        f"{made.around(second)[0]} {second.text}",
    ):
        assert whole.startswith(" ".join(text.split()))


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
