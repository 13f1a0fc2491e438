"""Choices drawn by lot that are the same on every machine and every Python."""

import hashlib
import random
from collections.abc import Sequence
from heapq import heappush, heapreplace
from typing import Generic, TypeVar

WORD = (1 << 64) - 1
T = TypeVar("T")


class Dice:
    """A stream of choices named by its key; other keys give other streams.

    Only ``random.Random.random`` is drawn from: Python promises its sequence for a seed, and
    promises nothing for ``choice`` or ``shuffle``.
    """

    def __init__(self, *key: str | int) -> None:
        named = "\x1f".join(map(str, key)).encode()
        self._lot = random.Random(int.from_bytes(hashlib.sha256(named).digest()[:8], "big"))

    def below(self, limit: int) -> int:
        """Draw from 0 to ``limit - 1``."""
        return int(self._lot.random() * limit)

    def share(self) -> float:
        """Draw from [0, 1)."""
        return self._lot.random()

    def chance(self, probability: float) -> bool:
        """Say yes that often."""
        return self._lot.random() < probability

    def choice(self, among: Sequence[T]) -> T:
        """Draw one."""
        return among[int(self._lot.random() * len(among))]

    def some(self, among: Sequence[T], count: int) -> list[T]:
        """Draw ``count`` different ones, or all where there are fewer."""
        left = list(among)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]


def mixed(stream: int, value: int) -> int:
    """Scatter ``value`` over 64 bits, differently for each stream.

    The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    """
    z = (value * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


class Lots(Generic[T]):
    """At most ``limit`` of the items that pass by, drawn by lot without knowing how many come.

    Which are drawn rests on their numbers alone, which must differ, and not on their order.
    """

    def __init__(self, stream: int, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self._kept: list[tuple[int, int, T]] = []

    def offer(self, number: int, item: T) -> None:
        """Let one pass by."""
        lot = mixed(self._stream, number)
        if len(self._kept) < self._limit:
            heappush(self._kept, (-lot, number, item))
        elif -self._kept[0][0] > lot:
            heapreplace(self._kept, (-lot, number, item))

    def drawn(self) -> list[T]:
        """Give what was drawn, in the order of the lots."""
        return [item for _, _, item in sorted(self._kept, key=lambda kept: -kept[0])]
