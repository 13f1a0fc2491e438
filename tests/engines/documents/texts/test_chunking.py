"""Chunks: nothing is lost, nothing too long, and each place gives its text back."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.stacks.documents.formats import Page, Source
from engines.stacks.documents.texts import Cutting, Layout, chunk_id, chunks, stretches
from tests.engines.documents.small import library_of

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


def source(*pages: str) -> Source:
    numbered = tuple(Page(number, text) for number, text in enumerate(pages, start=1))
    return Source("doc", "doc.pdf", "/somewhere/doc.pdf", numbered)


@settings(max_examples=100)
@given(text=TEXT, cutting=CUTTING)
def test_every_place_gives_the_chunks_text_back(text: str, cutting: Cutting) -> None:
    for chunk in chunks(source(text), cutting):
        place = chunk.provenance
        assert text[place.char_start : place.char_end] == chunk.text
        assert chunk.text == chunk.text.strip() != ""


@settings(max_examples=100)
@given(text=TEXT, cutting=CUTTING)
def test_every_character_is_in_a_chunk_and_chunks_go_forward(text: str, cutting: Cutting) -> None:
    found = list(stretches(text, cutting))
    covered = {at for start, end in found for at in range(start, end)}
    assert {at for at, one in enumerate(text) if not one.isspace()} <= covered
    for one, other in itertools.pairwise(found):
        assert one[0] < other[0]
        assert one[1] < other[1]


@settings(max_examples=100)
@given(text=TEXT, cutting=CUTTING)
def test_sizes_and_overlaps_stay_within_their_bounds(text: str, cutting: Cutting) -> None:
    found = list(stretches(text, cutting))
    for start, end in found[:-1]:
        assert end - start <= cutting.characters
    for start, end in found[-1:]:
        assert end - start <= cutting.characters + cutting.overlap
    for one, other in itertools.pairwise(found):
        assert one[1] - other[0] <= cutting.overlap


@settings(max_examples=50)
@given(text=TEXT, cutting=CUTTING)
def test_lines_and_paragraphs_are_those_of_the_first_and_last_character(
    text: str, cutting: Cutting
) -> None:
    layout = Layout.of(text)
    for chunk in chunks(source(text), cutting):
        place = chunk.provenance
        last = place.char_end - 1
        assert place.lines.first == layout.lines(place.char_start, place.char_start + 1).first
        assert place.lines.last == layout.lines(last, last + 1).last
        assert place.paragraphs.first >= 1
        assert place.paragraphs.last >= place.paragraphs.first


def test_the_specifications_sizes_on_plain_words() -> None:
    text = "word " * 2000
    found = list(stretches(text, SPECIFIED))
    assert [end - start for start, end in found[:-1]] == [1999] * (len(found) - 1)
    assert all(one[1] - other[0] == 199 for one, other in itertools.pairwise(found))


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


def test_ends_anywhere_are_where_the_characters_end_and_words_are_cut() -> None:
    text = "word " * 60
    assert list(stretches(text, Cutting(42, 10, "anywhere")))[:2] == [(0, 42), (32, 74)]
    whole = list(stretches(text, Cutting(42, 10)))
    assert all(start % 5 == 0 and end % 5 == 4 for start, end in whole)


def test_a_rest_no_longer_than_the_overlap_is_taken_along() -> None:
    assert list(stretches("x" * 2200, SPECIFIED)) == [(0, 2200)]
    assert list(stretches("x" * 2201, SPECIFIED)) == [(0, 2000), (1800, 2201)]


def test_a_chunk_leaves_its_page_where_a_sentence_does() -> None:
    (found,) = chunks(source("The first\n\npage and", "its end.\n\nMore"), SPECIFIED)
    place = found.provenance
    assert found.text == "The first\n\npage and\nits end.\n\nMore"
    assert (place.page, place.page_end) == (1, 2)
    assert (place.char_start, place.char_end) == (0, len("its end.\n\nMore"))
    assert (place.paragraphs, place.lines) == ((1, 2), (1, 3))
    assert place.cite() == "doc.pdf, p. 1, para. 1 to p. 2, para. 2"
    assert place.cite_short() == "doc, p. 1-2"


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


def test_chunks_are_numbered_through_all_pages() -> None:
    found = list(chunks(source("first page.", " \n ", "Third page\n\nits end"), SPECIFIED))
    places = [chunk.provenance for chunk in found]
    assert [(p.page, p.chunk_index, p.chunk_id) for p in places] == [
        (1, 0, "doc#000000"),
        (3, 1, "doc#000001"),
    ]
    assert places[1].paragraphs == (1, 2)
    assert places[1].char_start == 0


def test_a_mail_is_not_joined_with_the_next() -> None:
    box = replace(source("Subject: tea,", "salt"), name="all.mbox")
    assert [(chunk.text, chunk.provenance.cite()) for chunk in chunks(box, SPECIFIED)] == [
        ("Subject: tea,", "all.mbox, mail 1, para. 1"),
        ("salt", "all.mbox, mail 2, para. 1"),
    ]


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
