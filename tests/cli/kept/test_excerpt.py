"""``kept.excerpt``: what is shown of a text has the words that were looked for."""

from __future__ import annotations

import pytest

from harness.cli.folders import AFTER, BEFORE, around

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
    part = shown.removeprefix(BEFORE).removesuffix(AFTER)
    assert part in text
    assert text[text.index(part) - 1].isspace()
    assert shown.endswith(AFTER) != text.endswith(part)


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
    assert around(text, query, 200) == text[:199] + AFTER


def test_a_short_text_is_shown_whole_and_one_without_spaces_from_its_beginning() -> None:
    assert around(FOUND, "nine", 200) == FOUND
    assert len(around("a" * 300 + "-harbour-" + "a" * 300, "harbour", 200)) <= 200


@pytest.mark.parametrize("rest", [" the end of it " + REST, "/" * 400, ""])
def test_a_word_within_a_long_address_is_shown(rest: str) -> None:
    """The search for a space before it went past the word, up to the end of the text."""
    shown = around(f"http://x/{'a' * 400}/needle/{'b' * 100}{rest}", "needle", 200)
    assert "needle" in shown
    assert len(shown) <= 200


def test_words_that_count_as_shown_are_shown_whole() -> None:
    text = f"{'x ' * 100}alpha {'y ' * 80}threads {REST}"
    most = next(n for n in range(60, 400) if "threads" in around(text, "alpha threads", n))
    assert all("threads" in around(text, "alpha threads", n) for n in range(most, 400))
