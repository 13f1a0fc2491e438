"""A judged sample of the unjudged hits of two arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Key = tuple[str, str, str]
"""Control, candidate and measure."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """How hits were drawn, and what was judged of them.

    Which hits were drawn follows from runs, judgements, measure, seed and rate, so a sample of which
    unwelcome hits are left out is noticed.
    """

    control: str
    candidate: str
    measure: str
    seed: int
    rate: float
    """A hit is drawn with this times what it can move the difference of its query, at most 1."""
    grades: Mapping[str, Mapping[str, int]]
    """By query and document."""
    by: str
    """Who judged."""

    @property
    def key(self) -> Key:
        """What it is a sample of."""
        return self.control, self.candidate, self.measure
