"""One answer, read by the expressions of the arm's file; what does not fit is a failed query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engines.stacks.http.expression import Expression, NoMatch, compiled
from engines.stacks.http.failures import Malformed
from engines.stacks.http.settings import Settings
from harness.core.engine import surplus

KEYS = 8
"""Members of an answer that a message lists."""


class ServerHit(NamedTuple):
    """A hit as the server has it; ``score`` is ``None`` where none is read."""

    doc_id: str
    score: float | None


class Reading(NamedTuple):
    """What was read of an answer."""

    hits: Sequence[ServerHit]
    total: int | None
    generation: object


@dataclass(frozen=True, slots=True)
class Reader:
    """The expressions of an arm, compiled."""

    settings: Settings
    hits: Expression
    id: Expression
    score: Expression | None
    total: Expression | None
    incomplete: Expression | None
    generation: Expression | None

    def read(self, answer: Any, k: int) -> Reading:  # noqa: ANN401  any JSON
        """Read an answer to a request for ``k`` hits.

        Raises:
            Malformed: an expression matches nothing, or what it matches is of another type. Or
                there are more hits, of which none is read.
        """
        try:
            return self._read(answer, k)
        except NoMatch as exc:
            raise Malformed(str(exc)) from exc

    def _read(self, answer: Any, k: int) -> Reading:  # noqa: ANN401  any JSON
        if self.incomplete and (why := self.incomplete(answer)):
            raise Malformed(
                f"a partial answer: {self.settings.incomplete!r} is {why!r}. Nothing of it counts"
            )
        listed = self.hits(answer)
        if listed is None:
            raise Malformed(
                f"hits: nothing matches {self.settings.hits!r} in the answer, {_shape(answer)}."
                " Correct hits"
            )
        if not isinstance(listed, list):
            raise Malformed(f"hits: {self.settings.hits!r} is {_shape(listed)}, not a list")
        if too_many := surplus(len(listed), k):
            raise Malformed(too_many)
        found = [self._hit(at, one) for at, one in enumerate(listed, start=1)]
        total = self.total(answer) if self.total else None
        if self.total and (not isinstance(total, int) or isinstance(total, bool) or total < 0):
            raise Malformed(f"total: {self.settings.total!r} is {total!r}, not a number of hits")
        return Reading(found, total, self._generation(answer))

    def generation_of(self, answer: Any) -> object:  # noqa: ANN401  any JSON
        """Read the generation alone; None where the file names none.

        Raises:
            Malformed: its expression cannot be evaluated.
        """
        try:
            return self._generation(answer)
        except NoMatch as exc:
            raise Malformed(str(exc)) from exc

    def _generation(self, answer: Any) -> object:  # noqa: ANN401  any JSON
        return self.generation(answer) if self.generation else None

    def _hit(self, at: int, hit: Any) -> ServerHit:  # noqa: ANN401  any JSON
        found = self.id(hit)
        if found is None or found == "":
            raise Malformed(
                f"hit {at} has no id: nothing matches {self.settings.id!r} in {_shape(hit)}."
                " Correct id"
            )
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise Malformed(f"hit {at}: the id {found!r} is neither a text nor a whole number")
        return ServerHit(str(found), self._score(at, hit) if self.score else None)

    def _score(self, at: int, hit: Any) -> float:  # noqa: ANN401  any JSON
        value = self.score(hit) if self.score else None
        if value is None:
            raise Malformed(
                f"hit {at} has no score: nothing matches {self.settings.score!r} in {_shape(hit)}."
                ' Correct score, or write score = "" where the order alone counts'
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Malformed(
                f"hit {at}: the score {value!r} is not a number. Write to_number(...) around the"
                " expression where the server sends texts"
            )
        if not math.isfinite(value):
            raise Malformed(f"hit {at}: the score is {value!r}")
        return float(value)


def reader(settings: Settings) -> Reader:
    """Compile the expressions of an arm."""

    def optional(text: str) -> Expression | None:
        return compiled(text) if text else None

    return Reader(
        settings,
        compiled(settings.hits),
        compiled(settings.id),
        optional(settings.score),
        optional(settings.total),
        optional(settings.incomplete),
        optional(settings.generation),
    )


def _shape(value: object) -> str:
    """Describe a value by its type and its first members."""
    if isinstance(value, dict):
        names = ", ".join(map(str, list(value)[:KEYS]))
        more = ", ..." if len(value) > KEYS else ""
        return f"an object with {names}{more}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"{type(value).__name__} {value!r:.40}"
