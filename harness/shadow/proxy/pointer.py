"""JSON pointers (RFC 6901): where in a document of JSON something stands."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator


class UnresolvedPointer(Exception):
    """Nothing stands where a pointer leads."""


def pointed(document: Any, pointer: str) -> Any:  # noqa: ANN401  any JSON, and any part of it
    """Give what ``pointer`` leads to; the empty pointer is the whole document.

    Raises:
        UnresolvedPointer: nothing is there.
    """
    found = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[_place(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, TypeError, ValueError):
            raise UnresolvedPointer(f"there is nothing at {pointer}") from None
    return found


def _place(name: str) -> int:
    """Read a place in a list, which counts from 0 and has no sign and no zero in front."""
    if not (name.isascii() and name.isdigit()) or (name[0] == "0" and name != "0"):
        raise ValueError(name)
    return int(name)


def _checked(pointer: str) -> str:
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer; it starts with /, as /hits/0/id")
    return pointer


Pointer = Annotated[str, AfterValidator(_checked)]
"""A pointer in a file of settings."""
