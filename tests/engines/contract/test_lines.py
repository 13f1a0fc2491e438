"""The line of a key and of a value in an arm's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.contract import line_of_key, line_of_value

TEXT = """\
summary = "words"
stack = "hybrid"

[settings]
depth = 5
"" = 3
"a\u2028b=c" = "x\u2028y"
list = [
"e" ] # no key
"d"."e.f" = { g = 1 }

[settings.legs.words]
stack = 'fts5'

[[ 'kinds' ]]
name = 1
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "mine.toml"
    found.write_text(TEXT)
    return found


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (["stack"], 2),
        (["settings", "depth"], 5),
        (["settings", "legs", "words", "stack"], 13),
        (["settings", "legs", "words", "absent"], 12),
        (["settings", "absent"], 4),
        (["absent"], None),
        (["settings", ""], 6),
        (["settings", "a\u2028b=c"], 7),
        (["settings", "list"], 8),
        (["settings", "d", "e.f"], 10),
        (["kinds", "name"], 16),
        (["kinds", "absent"], 15),
    ],
)
def test_a_key_or_the_innermost_table_around_it(
    path: Path, key: list[str], line: int | None
) -> None:
    assert line_of_key(path, key) == line


@pytest.mark.parametrize(("value", "line"), [("words", 1), ("fts5", 13), ("5", None), ("", None)])
def test_a_text_that_a_key_has(path: Path, value: str, line: int | None) -> None:
    assert line_of_value(path, value) == line


def test_ends_of_lines_as_windows_writes_them_change_no_number(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'stack = "text"\r\n[settings]\r\nk = 5\r\n[settings.a]\r\nb = 1\r\n')
    assert line_of_key(path, ["settings", "k"]) == 3
    assert line_of_key(path, ["settings", "a", "b"]) == 5


def test_a_list_of_lists_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[settings]\nx = [\n  ["a", "b"],\n]\nk = 1\n')
    assert line_of_key(path, ["settings", "k"]) == 5
    assert line_of_key(path, ["settings", "absent"]) == 1
    assert line_of_key(path, ["other"]) is None
