"""What a person reads of a page, in linear time."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.markup import paragraphs, words


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("", ""),
        ("<p>one<br>two</p>three", "one two three"),
        ("a &lt;b&gt; &amp; c&nbsp;d &#233;", "a <b> & c d é"),
        ("<script>no('<p>')</script >yes<STYLE>p{}</STYLE> and", "yes and"),
        ('<a title="x > y" href=z>link</a>', "link"),
        ("<!-- no <p> -->yes<!DOCTYPE html><?php no ?>", "yes"),
        ("1 < 2 and 3 <= 4 <5", "1 < 2 and 3 <= 4 <5"),
        ("before <b after", "before"),
        ("<script>never closed", ""),
        ("&#" + "9" * 5_000 + ";", "\ufffd"),
        ("Upp<b>sala</b><option>Oslo<option>Rome</html>late", "Uppsala Oslo Rome late"),
        ("<ruby>\u6f22<rp>(</rp><rt>kan</rt>\u5b57<rt>ji</ruby>.", "\u6f22\u5b57(kanji)."),
    ],
)
def test_words_of_a_page(page: str, says: str) -> None:
    assert words(page) == says


@pytest.mark.parametrize(
    "page",
    [
        *("<a" * 500_000, "<script>" + "</script " * 100_000, "<a '" * 300_000, "<!" * 500_000),
        "<div>" * 80_000 + "</p>" * 80_000,
    ],
)
def test_markup_that_never_ends_takes_no_longer_than_the_page(page: str) -> None:
    """An end tag is looked for in all elements that are open, so their number is bounded."""
    before = time.process_time()
    words(page)
    assert time.process_time() - before < 5


def test_what_is_nested_too_deep_ends_the_page() -> None:
    assert words("<p>first" + "<b>" * 6_000 + "last") == "first"


class Parsed(HTMLParser):
    """Text as the standard library finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, _: object) -> None:
        self.text += " " * (tag in {"p", "br"})

    def handle_endtag(self, tag: str) -> None:
        self.handle_starttag(tag, None)


TEXT = st.text("ab é&;<\n", max_size=8).map(lambda text: text.replace("<", "&lt;"))
TAGS = st.sampled_from([
    "<p>",
    "<p>x</p>",
    "<b x='y>z'>",
    '<a href="<">',
    "<br/>",
    "<!-- c -->",
    "<i >",
])


@given(st.lists(TEXT | TAGS, max_size=12).map("".join))
def test_a_well_formed_page_has_the_words_that_a_parser_finds(page: str) -> None:
    parser = Parsed()
    parser.feed(page)
    parser.close()
    assert words(page).split() == parser.text.split()


def test_a_run_of_blanks_takes_no_time() -> None:
    begun = time.perf_counter()
    found = paragraphs("<pre>a" + " " * 80_000 + "b\n" + " \n" * 50_000 + "c</pre>")
    assert found.endswith("b\n\nc")
    assert time.perf_counter() - begun < 5
