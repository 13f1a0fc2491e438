"""Text of strangers cannot break what it is printed in."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.printable import one_line, printable
from harness.report.rounding import markdown, minute, snippet


@given(st.text(st.characters(exclude_categories=[])))
def test_printable_text_is_xml_and_utf8(text: str) -> None:
    element = ET.Element("text")
    element.text = shown = printable(text)
    shown.encode()
    assert ET.fromstring(ET.tostring(element)).text in (shown, None)  # noqa: S314  just written


def test_controls_are_shown_not_dropped() -> None:
    assert printable("a\x00b\x1b[31m\x7f") == "a\u2400b\u241b[31m\u2421"
    assert printable("\ud800\ufffe") == "\ufffd\ufffd"


def test_direction_overrides_are_named() -> None:
    assert printable("\u202egnp.exe") == "⟨U+202E⟩gnp.exe"
    assert printable("שלום \u200f") == "שלום \u200f"


@given(st.text(), st.integers(2, 50))
def test_one_line_fits(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


def test_a_snippet_shows_a_word_of_the_query() -> None:
    text = "filler " * 100 + "the needle is here " + "filler " * 100
    found = snippet(text, "where is my needle", 80)
    assert "needle" in found
    assert found.startswith("…")
    assert found.endswith("…")
    assert len(found) <= 81


def test_a_snippet_without_such_a_word_is_the_beginning() -> None:
    assert snippet("abc def", "xyz", 80) == "abc def"


def test_markdown_has_no_markup_left() -> None:
    escaped = markdown("a|b\n# c <b>&amp; [x](https://e.org) `q` *z* @me nDCG@10 \\")
    assert escaped == (
        "a\\|b \\# c &lt;b&gt;&amp;amp; \\[x\\](https&#58;//e.org) \\`q\\` \\*z\\* &#64;me"
        " nDCG@10 \\\\"
    )


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-11-23T14:29:18+00:00", "2026-11-23 14:29 UTC"),
        ("2026-11-23T14:29:18+02:00", "2026-11-23 12:29 UTC"),
        ("2026-11-23", "2026-11-23"),
        ("", ""),
    ],
)
def test_a_moment_is_written_to_the_minute(moment: str, shown: str) -> None:
    assert minute(moment) == shown


@given(st.text())
def test_markdown_never_ends_a_cell(text: str) -> None:
    escaped = markdown(text)
    assert "\n" not in escaped
    assert "<" not in escaped
    assert all(escaped[at - 1] == "\\" for at, letter in enumerate(escaped) if letter == "|")
