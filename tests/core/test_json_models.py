"""JSON read as a model: an error names the file, the line and the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from harness.core import formats
from harness.core.errors import BadFile


class Note(BaseModel):
    """A note of somebody."""

    model_config = ConfigDict(extra="forbid")
    by: str
    counts: tuple[int, ...] = ()


def test_a_file_is_the_model(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_text('{"by": "me", "counts": [1, 2]}')
    assert formats.from_file(Note, path, "Fix it.") == Note(by="me", counts=(1, 2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"by": "me", "counts": [1, "x"]}', r"note\.json:7: counts\.1: Input should be"),
        ("{}", r"note\.json:7: by: Field required\. Fix it\."),
        ("[]", r"note\.json:7: the line: Input should be"),
        ('{"by": "me",', r"note\.json:7: it is not JSON"),
        ('{"by": "me", "by": "you"}', r"note\.json:7: it is not JSON .*twice"),
    ],
)
def test_a_line_that_is_not_the_model_is_named(text: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        formats.from_text(Note, text, Path("note.json"), "Fix it.", 7)


def test_a_file_that_is_not_the_model_names_the_line_of_its_fault(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_text('{"by":\n"me",\n}')
    with pytest.raises(BadFile, match=r"note\.json:3: it is not JSON"):
        formats.from_file(Note, path, "Fix it.")
    path.write_text("3")
    with pytest.raises(BadFile, match=r"note\.json: the file: Input should be"):
        formats.from_file(Note, path, "Fix it.")
