"""What an index has reached, beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.stacks.agent_mail.live import Note


def test_a_note_is_of_one_index_and_is_read_again_when_it_changes(tmp_path: Path) -> None:
    note, other = Note(tmp_path / "note"), Note(tmp_path / "note")
    assert note.read() is None
    note.write(3, "a")
    assert [note.read("a"), note.read("b"), other.read("a")] == [3, None, 3]
    other.write(4, "b")
    assert [note.read("a"), note.read("b")] == [None, 4]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"generation": 1}', '{"generation": "1", "of": ""}']
)
def test_what_is_no_note_says_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "note"
    path.write_text(text)
    assert Note(path).read() is None
