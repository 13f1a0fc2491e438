"""``kept.excerpt``: what is shown of a text has the words that were looked for."""

from __future__ import annotations

import pytest

from harness.cli.kept.excerpt import around

REST = "Nothing of it matters here. " * 40
FOUND = "Lanterns were lit along the harbour walls at nine."


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (REST + FOUND + REST, "harbour"),
        (REST + FOUND + REST, "the lantern on a wall"),
        ("A lantern. " + REST + FOUND + REST, "lanterns of the harbour"),
        (REST + FOUND, '+harbour -matters "at nine"'),
    ],
)
def test_the_words_that_were_looked_for_are_shown(text: str, query: str) -> None:
    shown = around(text, query, 200)
    assert FOUND in shown
    assert shown.startswith("… ")
    assert len(shown) <= 200
    assert shown[2:] in text
    assert text[text.index(shown[2:]) - 1].isspace()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (FOUND + REST + FOUND, "harbour lantern"),
        (REST, "harbour"),
        (REST, "the"),
        (REST + FOUND, "-harbour"),
    ],
)
def test_the_beginning_is_shown_where_it_has_as_many_words_as_any(text: str, query: str) -> None:
    assert around(text, query, 200) == text[:200]


def test_a_short_text_is_shown_whole_and_one_without_spaces_from_its_beginning() -> None:
    assert around(FOUND, "nine", 200) == FOUND
    assert len(around("a" * 300 + "-harbour-" + "a" * 300, "harbour", 200)) <= 200
