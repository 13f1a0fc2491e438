"""The largest and the smallest value of a measure that is a ratio, over all completions.

nDCG, P and R of one arm, and their differences between two arms, have one form: a sum over
documents by rank, divided by the best possible sum. A missing judgement changes both sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

STEPS = 100
"""More than Dinkelbach's method takes: each step but the last takes another completion."""


class Level(NamedTuple):
    """One level of gain above the one before it."""

    gain: float
    """What it gains more than the level before."""
    judged: int
    """Judged documents of this level or above."""


class Part(NamedTuple):
    """What a choice for some of the levels adds."""

    score: float
    top: float
    bottom: float


class Ratio(NamedTuple):
    """A measure as a function of the grades of its unjudged documents."""

    base: float
    """The sum over the judged documents."""
    weights: tuple[float, ...]
    """What each unjudged document adds a unit of gain, in any order."""
    levels: tuple[Level, ...]
    """Levels that a document may have, the lowest first; none is relevance 0."""
    worth: Sequence[float]
    """What the ideal list of n documents is worth a unit of gain, for n from 0."""
    constant: float
    """What is below the line whatever is judged, e.g. the k of P@k."""

    @property
    def defined(self) -> bool:
        """Whether there is anything below the line as it is judged now."""
        return self._judged_bottom > 0

    @property
    def as_judged(self) -> float:
        """The value with every unjudged document irrelevant."""
        return self.base / self._judged_bottom

    @property
    def smallest(self) -> float:
        """The smallest value over all completions."""
        negated = tuple(-weight for weight in self.weights)
        return -self._replace(base=-self.base, weights=negated).largest

    @property
    def largest(self) -> float:
        """The largest value over all completions that give one, exact but for rounding.

        Where nothing is judged relevant yet, the search begins at the best single document.
        Of all completions with the same counts by level, the best gives the highest levels to the
        documents that add most (rearrangement). So only counts by level are searched. The ratio is
        maximized by Dinkelbach's method (Management Science 1967), each step level by level. A
        document of a level is also of all levels below it.
        """
        sums = (0.0, *accumulate(sorted(self.weights, reverse=True)))
        found = self.as_judged if self.defined else max(self.weights) / self.worth[1]
        for _ in range(STEPS):
            part = self._best(sums, found)
            bottom = self._judged_bottom + part.bottom
            better = (self.base + part.top) / bottom if bottom else found
            if not better > found:
                break
            found = better
        return found

    @property
    def _judged_bottom(self) -> float:
        return self.constant + sum(level.gain * self.worth[level.judged] for level in self.levels)

    def _best(self, sums: Sequence[float], price: float) -> Part:
        """Find the completion that adds most to ``top - price * bottom``."""
        rows = [Part(0.0, 0.0, 0.0)] * len(sums)
        for gain, judged in reversed(self.levels):
            best = rows[0]
            for count, (rest, summed) in enumerate(zip(rows, sums, strict=True)):
                top = gain * summed + rest.top
                more = self.worth[judged + count] - self.worth[judged]
                bottom = gain * more + rest.bottom
                if (score := top - price * bottom) > best.score or not count:
                    best = Part(score, top, bottom)
                rows[count] = best
        return rows[-1]
