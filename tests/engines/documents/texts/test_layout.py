"""Lines and paragraphs, counted as a person does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.documents.texts import Layout

TEXT = "one\r\ntwo\r\n \t\r\nthree\n\n\n  four\rfive"


@pytest.mark.parametrize(
    ("word", "line", "paragraph"),
    [("one", 1, 1), ("two", 2, 1), ("three", 4, 2), ("four", 7, 3), ("five", 8, 3)],
)
def test_a_word_stands_in_its_line_and_paragraph(word: str, line: int, paragraph: int) -> None:
    start = TEXT.index(word)
    layout = Layout.of(TEXT)
    assert layout.lines(start, start + len(word)) == (line, line)
    assert layout.paragraphs(start, start + len(word)) == (paragraph, paragraph)


def test_a_stretch_names_its_first_and_its_last() -> None:
    layout = Layout.of(TEXT)
    end = TEXT.index("four") + 4
    assert layout.lines(0, end) == (1, 7)
    assert layout.lines(0, TEXT.index("two")) == (1, 1)
    assert layout.paragraphs(0, end) == (1, 3)


@given(st.text("ab \n\r\t", max_size=60))
def test_lines_are_those_of_reading_with_universal_line_ends(text: str) -> None:
    layout = Layout.of(text)
    for at in range(len(text)):
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        expected = before.count("\n") + 1 - text[at - 1 : at + 1].count("\r\n")
        assert layout.lines(at, at + 1).first == expected


@given(st.text("ab \n\r", max_size=60))
def test_paragraphs_are_what_blank_lines_part(text: str) -> None:
    layout = Layout.of(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    held = [bool(line.strip()) for line in lines]
    starts = sum(now and not before for before, now in zip([False, *held], held, strict=False))
    assert len(layout.paragraph_starts) == starts
