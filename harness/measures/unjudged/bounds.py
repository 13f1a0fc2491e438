"""Bounds of one query: the worst and the best value over all completions of its judgements.

A completion gives each unjudged document of the two arms one of the grades of the judgements.
Documents that neither arm shows stay irrelevant, as in any pool. A document that both arms show is
the same document: its grade moves both, so the bounds of the difference are narrower than the
difference of the bounds. Exact for nDCG, RR, P and R; for the difference of AP, which is quadratic
in the grades, they are outer bounds: never too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from harness.core.errors import UnknownName
from harness.measures.columnar.spec import MeasureSpec
from harness.measures.gain import as_gains
from harness.measures.name import parse
from harness.measures.unjudged.ratio import Level, Ratio


def average_precision(
    shown: Sequence[str], judged: Mapping[str, bool], unjudged: Collection[str]
) -> tuple[float, float]:
    """Give the smallest and the largest AP of the documents ``shown``, down to the cutoff.

    ``judged`` says of each judged document whether it is relevant, and one is; ``unjudged`` may or
    may not be, and some of them may not be shown here. For a fixed number of relevant ones among
    them, AP is largest if they come first in the ranking. It is smallest if they are not in it, or
    come last. So all numbers are tried.
    """
    relevant = sum(judged.values())
    places = [at for at, doc_id in enumerate(shown) if doc_id in unjudged]
    good = [at for at, doc_id in enumerate(shown) if judged.get(doc_id, False)]
    elsewhere = len(unjudged) - len(places)
    largest = (
        _summed([*good, *places[:count]]) / (relevant + count) for count in range(len(places) + 1)
    )
    smallest = (
        _summed([*good, *places[len(places) - max(count - elsewhere, 0) :]]) / (relevant + count)
        for count in range(len(unjudged) + 1)
    )
    return min(smallest), max(largest)


def _summed(places: Sequence[int]) -> float:
    """Sum the precision at each relevant place, from 0."""
    return sum(nth / (place + 1) for nth, place in enumerate(sorted(places), start=1))


BOUNDED = ("nDCG@k", "RR@k", "P@k", "R@k", "AP@k")
RATIOS = frozenset({"nDCG", "P", "R"})


class Span(NamedTuple):
    """The worst and the best value."""

    worst: float
    best: float

    @property
    def width(self) -> float:
        """Width of the range that missing judgements leave open."""
        return self.best - self.worst


class Case(NamedTuple):
    """One query: the full lists of both arms, and their judgements."""

    control: tuple[str, ...]
    candidate: tuple[str, ...]
    grades: Mapping[str, int]

    def with_judged(self, doc_id: str, grade: int) -> Case:
        """Judge one more document."""
        return self._replace(grades={**self.grades, doc_id: grade})


@dataclass(frozen=True, slots=True)
class Bounding:
    """Bounds of one measure under one scale of grades."""

    asked: MeasureSpec
    scale: tuple[int, ...]
    """Grades that a completion may give, the lowest, 0, first."""

    @classmethod
    def of(cls, measure: str, grades: Iterable[int]) -> Bounding:
        """Read a measure; ``grades`` are all that the judgements hold.

        Raises:
            UnknownName: the measure is unknown, or has no bounds here.
        """
        scale = sorted({0, *(grade for grade in grades if grade > 0)})
        asked = MeasureSpec.of(as_gains(parse(measure), scale))
        if asked is None or asked.judged_only or asked.name not in {*RATIOS, "RR", "AP"}:
            raise UnknownName("measure with bounds", measure, BOUNDED)
        return cls(asked, tuple(scale))

    @property
    def exact(self) -> bool:
        """Whether the bounds of the difference are reached by a completion."""
        return self.asked.name != "AP"

    def unjudged(self, case: Case) -> tuple[str, ...]:
        """Unjudged documents within the cutoff of either arm, in byte order."""
        shown = {*case.control[: self.asked.cutoff], *case.candidate[: self.asked.cutoff]}
        return tuple(sorted(shown.difference(case.grades)))

    def defined(self, case: Case) -> bool:
        """Whether the query has a value as it is judged now."""
        return any(self.gain(grade) > 0 for grade in case.grades.values())

    def gain(self, grade: int) -> int:
        """Gain of a grade; 1 or 0 for measures of binary relevance."""
        if self.asked.name != "nDCG":
            return int(grade >= self.asked.rel)
        gains = self.asked.gains
        return max(grade if gains is None else gains.get(grade, grade), 0)

    def control(self, case: Case) -> Span:
        """Bounds of the control's value, for any completion."""
        return self._alone(case, case.control)

    def candidate(self, case: Case) -> Span:
        """Bounds of the candidate's value."""
        return self._alone(case, case.candidate)

    def difference(self, case: Case) -> Span:
        """Bounds of candidate - control, both under the same completion."""
        match self.asked.name:
            case "RR":
                return self._reciprocal(case, lambda one, other: one - other)
            case "AP":
                control, candidate = self.control(case), self.candidate(case)
                worst, best = candidate.worst - control.best, candidate.best - control.worst
                return Span(worst, best) if self.unjudged(case) else Span(worst, worst)
        ratio = self._ratio(case, ((case.candidate, 1.0), (case.control, -1.0)))
        return Span(ratio.smallest, ratio.largest)

    def as_judged(self, case: Case) -> float:
        """Give candidate - control with every unjudged document irrelevant."""
        nothing = dict.fromkeys(self.unjudged(case), 0)
        return self.difference(case._replace(grades={**nothing, **case.grades})).worst

    def _alone(self, case: Case, shown: tuple[str, ...]) -> Span:
        match self.asked.name:
            case "RR":
                itself = case._replace(candidate=shown)
                return self._reciprocal(itself, lambda one, _: one)
            case "AP":
                judged = {doc: self.gain(grade) > 0 for doc, grade in case.grades.items()}
                open_ = self.unjudged(case) if self._may_be_relevant else ()
                return Span(*average_precision(shown[: self.asked.cutoff], judged, open_))
        ratio = self._ratio(case, ((shown, 1.0),))
        return Span(ratio.smallest, ratio.largest)

    @property
    def _may_be_relevant(self) -> bool:
        return self.gain(self.scale[-1]) > 0

    def _ratio(self, case: Case, arms: Sequence[tuple[tuple[str, ...], float]]) -> Ratio:
        gained = [self.gain(grade) for grade in case.grades.values()]
        unjudged = self.unjudged(case)
        worth_at = self._worth_at(len(gained) + len(unjudged))
        weights = dict.fromkeys(unjudged, 0.0)
        base = 0.0
        for shown, sign in arms:
            for doc_id, worth in zip(shown[: self.asked.cutoff], worth_at, strict=False):
                if doc_id in weights:
                    weights[doc_id] += sign * worth
                else:
                    base += sign * worth * self.gain(case.grades[doc_id])
        gains = sorted({0, *gained, *map(self.gain, self.scale)})
        levels = [
            Level(high - low, sum(gain >= high for gain in gained)) for low, high in pairwise(gains)
        ]
        ideal: Sequence[float] = (0.0, *accumulate(worth_at[: self.asked.cutoff]))
        beyond = len(gained) + len(unjudged) + 1 - len(ideal)
        ideal = (*ideal, *[ideal[-1]] * max(beyond, 0))
        constant = 0.0
        if self.asked.name == "R":
            ideal = range(len(ideal))
        elif self.asked.name == "P":
            ideal, constant = [0.0] * len(ideal), float(self.asked.cutoff or 1)
        return Ratio(base, tuple(weights.values()), tuple(levels), ideal, constant)

    def _worth_at(self, documents: int) -> Sequence[float]:
        """Say what a unit of gain is worth at each rank."""
        depth = documents if self.asked.cutoff is None else max(self.asked.cutoff, 1)
        if self.asked.name != "nDCG":
            return [1.0] * depth
        return [1 / math.log2(at + 2) for at in range(depth)]

    def _reciprocal(self, case: Case, value: Callable[[float, float], float]) -> Span:
        """Try no further relevant document, and each one alone.

        One is enough at each end of the difference: the first relevant document of the arm that is
        to gain; any other could only help the other arm. For one arm alone it is enough too.
        """
        judged = {doc for doc, grade in case.grades.items() if self.gain(grade) > 0}
        open_ = self.unjudged(case) if self._may_be_relevant else ()
        found = [
            value(self._rr(case.candidate, good), self._rr(case.control, good))
            for good in (judged, *({*judged, doc_id} for doc_id in open_))
        ]
        return Span(min(found), max(found))

    def _rr(self, shown: tuple[str, ...], good: set[str]) -> float:
        ranks = enumerate(shown[: self.asked.cutoff], start=1)
        return next((1 / rank for rank, doc_id in ranks if doc_id in good), 0.0)
