"""A receipt tells whether a file is still the one that was used."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.pipeline import receipts

HINT = "Do it again."


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    found = (tmp_path / "a" / "one", tmp_path / "b" / "two")
    for path in found:
        path.parent.mkdir()
        path.write_text(path.name)
    receipts.write(tmp_path / "b" / "receipt.json", found)
    return found


def test_files_that_did_not_change_fit(files: tuple[Path, ...], tmp_path: Path) -> None:
    receipts.check(tmp_path / "b" / "receipt.json", files, HINT)
    receipts.check(tmp_path / "b" / "receipt.json", files[:1], HINT)


def test_a_receipt_is_the_same_wherever_the_folder_lies(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    for name in ("a", "b"):
        (tmp_path / name).rename(moved / name) if moved.exists() else None
    noted = (tmp_path / "b" / "receipt.json").read_text()
    assert '"../a/one"' in noted
    assert '"two"' in noted
    assert str(tmp_path) not in noted
    assert len(files) == 2


def test_a_changed_file_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    files[1].write_text("TWO")
    with pytest.raises(
        EvidenceError, match=r"two: was changed since .*receipt\.json .*Do it again"
    ):
        receipts.check(tmp_path / "b" / "receipt.json", files, HINT)


def test_a_missing_file_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    files[0].unlink()
    with pytest.raises(EvidenceError, match=r"one: is gone since"):
        receipts.check(tmp_path / "b" / "receipt.json", files, HINT)


def test_a_file_that_was_not_used_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    (tmp_path / "three").write_text("3")
    with pytest.raises(EvidenceError, match=r"does not speak of .*three\. Do it again"):
        receipts.check(tmp_path / "b" / "receipt.json", (*files, tmp_path / "three"), HINT)


def test_a_missing_receipt_is_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="nothing was measured yet"):
        receipts.check(tmp_path / "receipt.json", (), HINT)


def test_a_broken_receipt_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_text("{")
    with pytest.raises(EvidenceError, match="is not a receipt"):
        receipts.check(tmp_path / "receipt.json", (), HINT)
