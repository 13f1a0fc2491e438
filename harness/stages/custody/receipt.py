"""Receipts: what a stage made its files from, so that no later stage takes stale ones."""

from __future__ import annotations

from collections.abc import Iterable
from os.path import normpath, relpath
from pathlib import Path

from harness.core import digest
from harness.core.errors import EvidenceError
from harness.core.files import write_json
from harness.core.formats import json_file


def write(receipt: Path, files: Iterable[Path]) -> None:
    """Write the digest of each file, by its path as seen from the receipt's folder."""
    write_json(receipt, {_name(receipt, path): digest.of_file(path) for path in files})


def check(receipt: Path, files: Iterable[Path], hint: str) -> None:
    """Hold ``files`` against what the receipt says of them.

    Raises:
        EvidenceError: the receipt is missing, it does not speak of a file, or a file is gone or was
            changed since.
    """
    noted = _read(receipt, hint)
    for path in files:
        name = _name(receipt, path)
        if name not in noted:
            raise EvidenceError(f"{receipt}: does not speak of {path}. {hint}")
        if not path.is_file():
            raise EvidenceError(f"{path}: is gone since {receipt} was written. {hint}")
        if digest.of_file(path) != noted[name]:
            raise EvidenceError(f"{path}: was changed since {receipt} was written. {hint}")


def check_all(receipt: Path, hint: str) -> tuple[Path, ...]:
    """Hold every file that the receipt speaks of, and give them.

    Raises:
        EvidenceError: as ``check``.
    """
    files = tuple(Path(normpath(receipt.parent / name)) for name in _read(receipt, hint))
    check(receipt, files, hint)
    return files


def _read(receipt: Path, hint: str) -> dict[str, str]:
    try:
        noted = json_file(receipt)
    except FileNotFoundError:
        raise EvidenceError(
            f"{receipt}: is not there, so nothing was measured yet. {hint}"
        ) from None
    except ValueError as exc:
        raise EvidenceError(f"{receipt}: is not a receipt ({exc}). {hint}") from exc
    if not isinstance(noted, dict):
        raise EvidenceError(f"{receipt}: is not a receipt but a {type(noted).__name__}. {hint}")
    return noted


def _name(receipt: Path, path: Path) -> str:
    return Path(relpath(path, receipt.parent)).as_posix()
