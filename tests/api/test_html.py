"""A table for a notebook holds text of strangers."""

from __future__ import annotations

import pytest

from harness.api import comparison
from harness.report.doc import Cell, Table


@pytest.mark.parametrize("place", ["caption", "header", "cell", "first", "note"])
def test_every_text_is_escaped_wherever_it_stands(place: str) -> None:
    given = dict.fromkeys(["caption", "header", "cell", "first", "note"], "plain")
    given[place] = "<img src=x onerror='alert(1)'>&\u202e"
    said = comparison.table(
        given["caption"], [given["header"]], [(given["first"], given["cell"])], given["note"]
    )
    assert "<img" not in said
    assert "&lt;img src=x onerror=&#x27;alert(1)&#x27;&gt;&amp;⟨U+202E⟩" in said


def test_the_first_column_names_the_rows() -> None:
    said = comparison.table("", ["", "b"], [("row", "1")])
    assert "<th style='text-align:left'>row</th><td>1</td>" in said
    assert "<p>" not in said


def test_cells_of_words_begin_at_the_left() -> None:
    left = " style='text-align:left'"
    rows = [("row", "1")]
    assert f"<th{left}>a</th></tr>" in comparison.table("", ["a"], rows, of_words=True)
    assert f"<td{left}>1</td>" in comparison.table("", ["a"], rows, of_words=True)
    assert "<th>a</th>" in comparison.table("", ["a"], rows)


def test_a_table_of_the_report_has_its_notes_escaped() -> None:
    cells = (Cell("row", "a <b>"), Cell("1 &", "of 2"), Cell("plain"))
    said = comparison.shown(Table("c", ("", "x", "y"), (cells,)))
    assert "row<br><small>a &lt;b&gt;</small></th>" in said
    assert ">1 &amp;<br><small>of 2</small></td>" in said
    assert ">plain</td>" in said


def test_a_sentence_is_escaped() -> None:
    assert comparison.line("a < b") == "<p>a &lt; b</p>"
