"""What waits between a thread that serves and one that does the rest: bounded by count and bytes.

Answers of megabytes fill a memory long before they are many, so a bound on their number alone is
not enough.
"""

from __future__ import annotations

from queue import SimpleQueue
from threading import Lock
from typing import Generic, TypeVar

MOST_ITEMS = 10_000
MOST_BYTES = 64 * 1024 * 1024
Item = TypeVar("Item")


class Backlog(Generic[Item]):
    """Takes items without waiting, and gives them in order."""

    def __init__(self, *, items: int = MOST_ITEMS, size: int = MOST_BYTES) -> None:
        self._most_items, self._most_bytes = items, size
        self._queue: SimpleQueue[tuple[Item, int] | None] = SimpleQueue()
        self._items = self._bytes = 0
        self._lock = Lock()

    def put(self, item: Item, size: int) -> bool:
        """Take an item of ``size`` bytes; False without room for it.

        One item that is larger than all the room is taken while nothing else waits.
        """
        with self._lock:
            crowded = self._items and self._bytes + size > self._most_bytes
            if crowded or self._items >= self._most_items:
                return False
            self._items += 1
            self._bytes += size
        self._queue.put((item, size))
        return True

    def end(self) -> None:
        """Let ``get`` give None after all that waits."""
        self._queue.put(None)

    def get(self) -> Item | None:
        """Wait for the next item; None is the end."""
        found = self._queue.get()
        if found is None:
            return None
        with self._lock:
            self._items -= 1
            self._bytes -= found[1]
        return found[0]
