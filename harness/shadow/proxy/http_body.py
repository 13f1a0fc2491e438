"""The body of an answer over HTTP, unpacked and read, whatever it is and never without a bound."""

from __future__ import annotations

import zlib
from typing import Any

from harness.core import formats
from harness.shadow.proxy.reading import Unreadable

EITHER = 47
"""Window bits of zlib for gzip and for deflate, whichever it is."""
PLAIN, PACKED = {"", "identity"}, {"gzip", "x-gzip", "deflate"}


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Undo a content encoding.

    Raises:
        Unreadable: it is another one than gzip or deflate, broken, or more than ``most`` bytes.
    """
    name = encoding.strip().lower()
    if name in PLAIN:
        found, left = body, b""
    elif name in PACKED:
        try:
            unpacker = zlib.decompressobj(EITHER)
            found = unpacker.decompress(body, most + 1)
            left = b"" if unpacker.eof else b"it goes on"
        except zlib.error as exc:
            raise Unreadable(f"no {name}: {exc}") from exc
    else:
        raise Unreadable(f"an answer in the encoding {encoding}")
    if len(found) > most:
        raise Unreadable(f"an answer of more than {most} bytes")
    if left:
        raise Unreadable(f"{name} that has no end")
    return found


def json_of(text: bytes) -> Any:  # noqa: ANN401  any JSON
    """Read JSON.

    Raises:
        Unreadable: it is not JSON.
    """
    try:
        return formats.json_of(text.decode("utf-8"))
    except ValueError as exc:
        raise Unreadable(f"it is not JSON: {type(exc).__name__}") from exc
