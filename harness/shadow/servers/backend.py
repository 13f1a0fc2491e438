"""A server that is not ours: its name, its answers, and the state of its index by the last one."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.core.engine import Answer
from harness.shadow.live.generation import DIGITS, stated
from harness.shadow.servers.reading import Reading


class Told(NamedTuple):
    """What one answer says."""

    answer: Answer
    generation: str
    """Of the index that it came from (``harness.shadow.live.generation``)."""


class Backend:
    """Reads the answers of one server as a file says.

    A server that tells its generation tells it with an answer and not before, so ``generation`` is
    that of the last answer that was read, on whatever thread. It is absent before the first one,
    and the empty text where the file names none.
    """

    def __init__(self, reading: Reading, kind: str, name: str) -> None:
        self.manifest = reading.manifest(kind, name)
        self._reading = reading
        self._digits = self.manifest.fingerprint[:DIGITS]
        self.generation: int | str | None = None if reading.answer.generation else ""

    def read(self, found: Any, k: int) -> Told:  # noqa: ANN401  any JSON
        """Read an answer to a request for ``k`` hits.

        Raises:
            Unreadable: it is not as the file says.
        """
        answer = self._reading.answer_of(found, self.manifest, k)
        number = self._reading.generation_of(found)
        self.generation = number
        return Told(answer, stated(self._digits, number))

    def now(self) -> str:
        """Give the generation as text, as far as it is known."""
        return stated(self._digits, self.generation)
