"""Chunks, references and the text that is ranked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.writing.store import chunks, shown, source_ref, trimmed
from harness.core.errors import DatasetError


def test_a_reference_means_the_same_on_any_machine() -> None:
    assert source_ref("notes/a b#1.md", 2) == "doc:notes/a%20b%231.md#chunk:2"


@pytest.mark.parametrize(
    "doc_id", ["/notes/a.md", "C:\\notes\\a.md", "d:/a.md", "\\\\host\\a", "~/a", "FILE:///a"]
)
def test_an_absolute_path_is_refused(doc_id: str) -> None:
    with pytest.raises(DatasetError, match="absolute path"):
        source_ref(doc_id, 0)


def test_chunks_are_cut_between_paragraphs() -> None:
    text = "one two\n\nthree\n\n\nfour five six\n\nseven"
    assert list(chunks(text, 14)) == ["one two\n\nthree", "four five six", "seven"]
    assert list(chunks(text, 0)) == [text]
    assert list(chunks("", 10)) == [""]
    assert list(chunks("word " * 5, 9)) == ["word word", "word word", "word"]
    assert list(chunks("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]


@given(st.text(alphabet="ab \n", max_size=200), st.integers(1, 40))
def test_chunks_are_small_and_lose_no_word(text: str, most: int) -> None:
    found = list(chunks(text, most))
    assert all(len(chunk) <= most for chunk in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_text_is_trimmed_at_a_word() -> None:
    assert trimmed("one two three", 9) == "one two"
    assert trimmed("one two three", 7) == "one two"
    assert trimmed("one two  ", 20) == "one two"
    assert trimmed("onetwothree", 5) == "onetw"
    assert trimmed(" onetwothree", 5) == " onet"


def test_a_snippet_is_title_and_passage_in_few_characters() -> None:
    assert shown("Tides", "The moon pulls", 80) == "Tides\nThe moon pulls"
    assert shown("Tides", "The moon pulls", 10) == "Tides\nThe"
    assert shown("", "The moon", 80) == "The moon"
