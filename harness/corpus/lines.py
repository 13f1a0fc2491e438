"""Names of files and of what is in them, as every format that we write can carry them."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import BadFile

SPACES = " \t\n\r\v\f"
"""What separates the fields of a TREC line, and so may not be in an id."""
UNCARRIED = SPACES + "\0"
"""What no id may hold."""

LEFT_OUT = "left_out.txt"
"""In the folder of a data set: ids of queries that the import left out, one a line."""


def either(folder: Path, name: str) -> Path:
    """Choose ``name`` in ``folder``, or ``name.gz`` where only that exists."""
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def checked_id(path: Path, number: int, what: str, found: str) -> str:
    """Return the id, which every file format we write must be able to carry.

    Raises:
        BadFile: it is empty or holds white space.
    """
    if not found or any(space in found for space in UNCARRIED):
        raise BadFile(
            path,
            f"the {what} id {found!r} is empty or holds white space or a NUL",
            "Use ids that a TREC file can carry.",
            number,
        )
    return found
