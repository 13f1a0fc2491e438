"""A lock file is claimed by one, and by nobody once it has lost its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.core.files import claimed, let_go

FLAGS = os.O_RDWR | os.O_CREAT


def test_one_claims_a_file_and_the_next_after_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = claimed(path, FLAGS)
    assert first is not None
    assert claimed(path, FLAGS) is None
    let_go(first)
    second = claimed(path, FLAGS)
    assert second is not None
    let_go(second)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another"])
def test_a_file_that_was_removed_meanwhile_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    """Whoever holds it removes it between our opening and our locking it."""
    path, other, opened = tmp_path / "lock", tmp_path / "other", os.open

    def open_late(name: Path, flags: int, mode: int) -> int:
        found = opened(name, flags, mode)
        path.unlink()
        if again:
            other.write_text("")
            other.rename(path)
        return found

    monkeypatch.setattr(os, "open", open_late)
    assert claimed(path, FLAGS) is None


def test_no_claim_is_made_where_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        claimed(tmp_path / "lock", os.O_RDWR)
