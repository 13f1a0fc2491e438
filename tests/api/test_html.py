"""A table for a notebook holds text of strangers."""

from __future__ import annotations

import pytest

from harness.api import html


@pytest.mark.parametrize("place", ["caption", "header", "cell", "first", "note"])
def test_every_text_is_escaped_wherever_it_stands(place: str) -> None:
    given = dict.fromkeys(["caption", "header", "cell", "first", "note"], "plain")
    given[place] = "<img src=x onerror='alert(1)'>&\u202e"
    said = html.table(
        given["caption"], [given["header"]], [(given["first"], given["cell"])], given["note"]
    )
    assert "<img" not in said
    assert "&lt;img src=x onerror=&#x27;alert(1)&#x27;&gt;&amp;⟨U+202E⟩" in said


def test_the_first_column_names_the_rows() -> None:
    said = html.table("", ["", "b"], [("row", "1")])
    assert "<th style='text-align:left'>row</th><td>1</td>" in said
    assert "<p>" not in said
