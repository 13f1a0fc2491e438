"""The line of a key and of a value in an arm's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines import registry

TEXT = """\
summary = "words"
stack = "hybrid"

[settings]
depth = 5

[settings.legs.words]
stack = 'fts5'
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
        (["settings", "legs", "words", "stack"], 8),
        (["settings", "legs", "words", "absent"], 7),
        (["settings", "absent"], 4),
        (["absent"], None),
    ],
)
def test_a_key_or_the_innermost_table_around_it(
    path: Path, key: list[str], line: int | None
) -> None:
    assert registry.line_of_key(path, key) == line


@pytest.mark.parametrize(("value", "line"), [("words", 1), ("fts5", 8), ("5", None), ("", None)])
def test_a_text_that_a_key_has(path: Path, value: str, line: int | None) -> None:
    assert registry.line_of_value(path, value) == line
