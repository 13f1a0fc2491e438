"""JSON, TOML and YAML within bounds; what is beyond them is one sentence and no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.formats import (
    MAX_DEPTH,
    MAX_DIGITS,
    json_file,
    json_of,
    moment_of,
    toml_file,
    toml_of,
    yaml_file,
    yaml_of,
)
from harness.core.reading import Malformed

Read = Callable[[str], Any]


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (json_of, "", "Expecting value"),
        (json_of, "{", "Expecting property name"),
        (json_of, "[" * 100_000, "nested more than 100 deep"),
        (json_of, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested more than 100 deep"),
        (json_of, '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "nested more than"),
        (json_of, "9" * (MAX_DIGITS + 1), "a number has 301 digits"),
        (json_of, "-" + "9" * 5_000, "a number has 5001 digits"),
        (json_of, "1e999", "1e999 is not a finite number"),
        (json_of, "[-1e999]", "-1e999 is not a finite number"),
        (json_of, '{"a": NaN}', "NaN is not JSON"),
        (json_of, "[Infinity]", "Infinity is not JSON"),
        (json_of, '{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' comes twice"),
        (json_of, r'{"a": "\ud800"}', "half of a surrogate pair"),
        (json_of, r'{"\udfff": 1}', "half of a surrogate pair"),
        (toml_of, "a = ", "at end of document"),
        (toml_of, "a = 1\na = 2\n", "Cannot overwrite a value"),
        (toml_of, "a = " + "[" * 5_000, "nested more than 100 deep"),
        (toml_of, "a = " + "[" * 101 + "]" * 101, "nested more than 100 deep"),
        (toml_of, ".".join("a" * 200) + " = 1", "nested more than 100 deep"),
        (toml_of, "x = {" + " . ".join(["a", '"b"', "'c'"] * 50_000) + " = 1}", "nested more"),
        (toml_of, "a = " + "9" * 5_000, "digits"),
        (toml_of, "a = 1e999", "1e999 is not a finite number"),
        (toml_of, "a = 2026-02-30", "Invalid date"),
    ],
)
def test_what_is_beyond_the_bounds_of_a_format_is_named(read: Read, text: str, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        read(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0001-01-01T00:00:00+14:00", "is outside the years 1 to 9999 of UTC"),
        ("9999-12-31T23:59:59-14:00", "is outside the years 1 to 9999 of UTC"),
        ("2026-01-01T00:00:00", "names no zone"),
        ("soon", "'soon' is not a time"),
    ],
)
def test_a_time_that_no_zone_can_tell_is_none(text: str, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        moment_of(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+14:00"])
def test_the_first_and_the_last_time_are_read(text: str) -> None:
    assert moment_of(text).isoformat() == text


def test_a_key_of_many_parts_is_refused_before_it_is_read() -> None:
    """By tomllib they take the square of their number in time and in memory."""
    began = thread_time()
    with pytest.raises(Malformed, match="nested more than 100 deep"):
        toml_of("x = {" + " . ".join(["a", '"b"', "'c'"] * 30_000) + " = 1}")
    assert thread_time() - began < 1


def test_what_is_within_the_bounds_is_read() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json_of(f'{{"é": {"9" * MAX_DIGITS}, "b": [1.5, null, "[[["]}}')["b"][2] == "[[["
    assert json_of(deep) == json.loads(deep)
    assert json_of(r'"\ud83d\ude00"') == "😀"
    assert toml_of("a = [1, 2.5]\n[b]\nc = 'x'") == {"a": [1, 2.5], "b": {"c": "x"}}


@pytest.mark.parametrize("read", [json_file, toml_file, yaml_file])
def test_a_file_is_read_as_its_text_is(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        read(path)
    path.write_bytes(b"\xff")
    with pytest.raises(Malformed, match="not UTF-8"):
        read(path)
    path.write_text('{"a": 1}' if read is json_file else "a = 1" if read is toml_file else "a: 1")
    assert read(path) == {"a": 1}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
PIECES = st.sampled_from([
    *'{}[]",:\\.-+*&!#=\n ',
    "1e9",
    "null",
    "true",
    "\\u",
    "d800",
    "''",
    "é",
    "9" * 400,
])


@given(VALUES)
def test_json_that_was_written_is_read_back(value: object) -> None:
    assert json_of(json.dumps(value)) == value


@given(st.lists(PIECES, max_size=25).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (json_of, toml_of, yaml_of):
        with suppress(Malformed):
            json.dumps(read(text), default=str).encode()
