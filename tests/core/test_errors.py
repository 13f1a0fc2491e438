"""Errors are one tree, and say where and what to do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from harness.core import errors
from harness.core.errors import (
    LONGEST,
    PROBLEM,
    BadFile,
    BadPolicy,
    HarnessError,
    MismatchedQueries,
    UnknownName,
)

CLASSES = {
    name: found
    for name, found in vars(errors).items()
    if inspect.isclass(found) and issubclass(found, Exception)
}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"^( *)[*-] (\w+)", errors.__doc__ or "", re.MULTILINE)
    assert {name for _, name in drawn} == set(CLASSES)
    above: list[str] = ["Exception"]
    for indent, name in drawn:
        depth = len(indent) // 2
        above[depth + 1 :] = [name]
        assert [base.__name__ for base in CLASSES[name].__bases__] == [above[depth]]


@pytest.mark.parametrize("found", CLASSES.values(), ids=CLASSES.keys())
def test_all_can_be_caught_as_one(found: type[Exception]) -> None:
    assert issubclass(found, HarnessError)


def test_a_bad_file_names_file_line_and_hint() -> None:
    told = BadPolicy("p.toml", "m is missing", "Add it", 7)
    assert str(told) == "p.toml:7: m is missing. Add it"
    assert (told.path, told.line, told.hint) == (Path("p.toml"), 7, "Add it")
    assert str(BadFile("p.toml", "no such file", "Make it")) == "p.toml: no such file. Make it"


def test_a_message_is_one_printable_line_of_some_length() -> None:
    """Names, ids and texts of strangers are in messages, and a terminal obeys what it shows."""
    said = str(HarnessError("an id \x1b[31m\u202e\u2028\x9b\n of a stranger"))
    assert said.isprintable()
    assert said.endswith(" of a stranger")
    assert "U+2028" in said
    long = str(HarnessError("x" * 10_000 + " the remedy"))
    assert (len(long), long[-10:]) == (LONGEST, "the remedy")
    assert len(str(BadFile("file", "x" * 10_000, "the remedy"))) < PROBLEM + 30


def test_an_unknown_name_says_what_there_is() -> None:
    assert str(UnknownName("arm", "x", ["a", "b"])) == "no arm named 'x'; there is a, b"
    assert str(UnknownName("arm", "x", [])).endswith("there is none")
    near = UnknownName("arm", "fts4", ["dense", "fts5", "fts5-porter"])
    assert str(near).endswith("fts5-porter. Did you mean fts5?")


def test_mismatched_queries_are_counted_with_examples() -> None:
    told = str(MismatchedQueries({"b", "a", "c", "d"}, set()))
    assert "4 queries only on the left, 0 only on the right" in told
    assert "['a', 'b', 'c']" in told


@pytest.mark.parametrize(("name", "meant"), [("FTS5", "fts5"), ("Tantvy", "tantivy"), ("ö", "")])
def test_the_nearest_name_is_suggested_whatever_its_case(name: str, meant: str) -> None:
    said = str(UnknownName("arm", name, ("fts5-porter", "fts5", "tantivy")))
    assert said.endswith(f". Did you mean {meant}?" if meant else "fts5-porter, fts5, tantivy")
