"""What a person reads of a page, in linear time."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.markup import words


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
        ("before <b after", "before <b after"),
        ("<script>never closed", ""),
        ("&#" + "9" * 5_000 + ";", "&#" + "9" * 5_000 + ";"),
    ],
)
def test_words_of_a_page(page: str, says: str) -> None:
    assert words(page) == says


@pytest.mark.parametrize(
    "page", ["<a" * 500_000, "<script>" + "</script " * 100_000, "<a '" * 300_000, "<!" * 500_000]
)
def test_markup_that_never_ends_takes_no_longer_than_the_page(page: str) -> None:
    """20,000 names of tags that no bracket closes took 15 s, and four times that for twice."""
    before = time.process_time()
    words(page)
    assert time.process_time() - before < 5


class Parsed(HTMLParser):
    """Words as the standard library finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words += data.split()


TEXT = st.text("ab é&;<\n", max_size=8).map(lambda text: text.replace("<", "&lt;"))
TAGS = st.sampled_from([
    "<p>",
    "</p>",
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
    assert words(page).split() == " ".join(parser.words).split()
