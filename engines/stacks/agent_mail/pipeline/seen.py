"""Ids that earlier pages have examined, in a few characters: a byte or two for each.

Written are the gaps between them in their order, in groups of seven bits, the lowest first, as
LEB128 does. The whole is in the letters of base64 that an address may hold.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator

LARGEST_ID = 2**63 - 1
LEAST_ID = -(2**63)
_LOW, _MORE, _BITS = 0x7F, 0x80, 7


def packed(ids: Iterable[int]) -> str:
    """Write ids, in any order; none twice."""
    out, before = bytearray(), LEAST_ID
    write = out.append
    for one in sorted(ids):
        gap, before = one - before, one
        while gap > _LOW:
            write(gap & _LOW | _MORE)
            gap >>= _BITS
        write(gap)
    return urlsafe_b64encode(out).rstrip(b"=").decode()


def unpacked(text: str) -> frozenset[int]:
    """Read what ``packed`` wrote.

    Raises:
        ValueError: it is something else.
    """
    found = frozenset(_ids(urlsafe_b64decode(text + "=" * (-len(text) % 4))))
    if packed(found) != text:
        raise ValueError("not a list of ids")
    return found


def _ids(data: bytes) -> Iterator[int]:
    last, gap, shift = LEAST_ID, 0, 0
    for byte in data:
        gap |= (byte & _LOW) << shift
        shift += _BITS
        if byte & _MORE:
            if shift > _BITS * 9:
                raise ValueError("an id has 64 bits at most")
            continue
        last, gap, shift = last + gap, 0, 0
        if last > LARGEST_ID:
            raise ValueError("an id has 64 bits at most")
        yield last
