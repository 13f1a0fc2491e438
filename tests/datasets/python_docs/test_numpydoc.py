"""Docstrings taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_docs.numpydoc import capped, plain, take_apart, unindented

FULL = """
    Return the least-squares solution
    to a linear matrix equation.

    Computes it at once.

    Parameters
    ----------
    a : array
        %(input)s

    See Also
    --------
    scipy.linalg.lstsq : Similar function in SciPy.
    inv, pinv
        Both of them.
    :func:`numpy.dot`, `~.Axes.plot`: by role
    cross_() : odd ends
    Not a list of names but words, with commas.

    Notes
    -----
    The end.
    """


def test_a_docstring_falls_into_its_parts() -> None:
    docstring = take_apart(FULL, "lstsq")
    assert docstring.summary == "Return the least-squares solution to a linear matrix equation."
    assert docstring.body == (
        "Computes it at once.\n\nParameters\n----------\na : array\n\nNotes\n-----\nThe end."
    )
    assert docstring.see_also == (
        "scipy.linalg.lstsq",
        "inv",
        "pinv",
        "numpy.dot",
        ".Axes.plot",
        "cross",
    )


def test_a_signature_is_no_summary() -> None:
    docstring = take_apart(
        "concatenate(\n    arrays,\n    axis=0\n)\n\nJoin arrays.\n\nMore.", "concatenate"
    )
    assert (docstring.summary, docstring.body) == ("Join arrays.", "More.")


@pytest.mark.parametrize("text", ["Parameters\n----------\na : int", "\n\nNotes\n=====\nnone"])
def test_a_heading_is_no_summary(text: str) -> None:
    docstring = take_apart(text, "f")
    assert docstring.summary == ""
    assert docstring.body == text.strip()


def test_a_section_may_follow_the_summary_without_a_blank_line() -> None:
    docstring = take_apart("Do it.\nParameters\n----------\na : int", "f")
    assert (docstring.summary, docstring.body) == ("Do it.", "Parameters\n----------\na : int")


def test_indentation_goes_and_tabs_are_spaces() -> None:
    assert unindented("  a\n\tb  \n\t  c\n\n") == ["a", "b", "  c", "", ""]


@given(st.text("ab \n", max_size=80))
def test_unindenting_twice_changes_nothing_more(text: str) -> None:
    once = unindented("\n" + text)
    assert unindented("\n".join(once)) == once


def test_text_is_cut_at_the_end_of_a_paragraph_or_line() -> None:
    assert capped("abc", 3) == "abc"
    assert capped("abc\n\ndefg\nh", 9) == "abc\n\ndefg"
    assert capped("abcdef\n\nghijk\nl", 9) == "abcdef"
    assert capped("a\n\nbcdefg\nhijkl", 10) == "a\n\nbcdefg"
    assert capped("abcdefghijkl", 5) == "abcde"


@given(st.text("ab \n"), st.integers(1, 50))
def test_a_cut_text_begins_the_whole_one_and_is_not_too_long(text: str, most: int) -> None:
    assert text.startswith(capped(text, most))
    assert len(capped(text, most)) <= most


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("Return the `~.transforms.Bbox` of it.", "Return the Bbox of it"),
        ("Minor `.Tick`\\s of :class:`matplotlib.Axis`", "Minor Ticks of matplotlib.Axis"),
        ("A ``list``  of *a*.", "A list of a"),
        (":func:`text <target>` here", "text here"),
    ],
)
def test_markup_is_taken_out(marked: str, shown: str) -> None:
    assert plain(marked) == shown
