"""A name is one word that a file can be called by; whatever else is refused, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from harness.core.errors import BadName
from harness.core.names import LONGEST, Label, Name, check_distinct, checked, fault, labelled

HOSTILE = {
    "": "empty",
    ".": "may have",
    "..": "may have",
    "../x": "may have",
    "a/b": "may have",
    "/etc": "may have",
    "a\\b": "may have",
    ".hidden": "may have",
    "-x": "may have",
    "--force": "may have",
    "a b": "may have",
    " a": "may have",
    "a,b": "may have",
    "a=b": "may have",
    "a~b": "may have",
    "a:b": "may have",
    "*": "may have",
    "a\0b": "control",
    "a\nb": "control",
    "a\u202eb": "control",
    "\udcff": "control",
    "e\u0301": "composed",
    "x" * (LONGEST + 1): "bytes",
    "ö" * 51: "bytes",
    "\U0001f600": "may have",
}
GOOD = ("toy", "python-docs", "fts5", "bm25+rm3", "v1.2", "_x", "données", "メール", "a..b", "9",
        "x" * LONGEST)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_name_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(BadName, match=HOSTILE[name]) as refused:
        checked("a split", name)
    assert "is not a name of a split: " in str(refused.value)
    assert str(refused.value).endswith("Give another name")
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)


@pytest.mark.parametrize("name", GOOD)
def test_a_name_is_given_back_as_it_is(name: str) -> None:
    assert checked("an arm", name) == name
    assert TypeAdapter(Name).validate_python(name) == name


@given(st.text(max_size=20))
def test_a_name_never_leaves_its_folder(name: str) -> None:
    if not fault(name):
        for made in (name, f"{name}.json", f".{name}.lock"):
            path = Path("/a/b") / made
            assert path.parent == Path("/a/b")
            assert not set(path.parts) & {".", ".."}
            assert path.name == made


def test_names_that_differ_by_their_case_are_one() -> None:
    check_distinct("an arm", "fts5", ["fts5", "tantivy"])
    with pytest.raises(BadName, match="FTS5 differs from it only by its case"):
        check_distinct("an arm", "fts5", ["FTS5"])


@pytest.mark.parametrize("text", ["two editors", "Ada (2026)", "ПРОВЕРКА"])
def test_a_label_is_a_line_for_people(text: str) -> None:
    assert TypeAdapter(Label).validate_python(text) == text
    assert labelled("who judged", text) == text


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "\x1b[31m", "x" * 201])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(BadName, match="not a name of who judged"):
        labelled("who judged", text)
    with pytest.raises(ValidationError):
        TypeAdapter(Label).validate_python(text)
