"""Which judgement comes next, if a bound on a mean difference is to be settled soon.

Whether a candidate loses less than a margin rests on one end of the interval: the low end if it
does, the high end if it does not. So a pair is worth what judging it is expected to move that end,
over a likely and an unlikely grade. Today's order of a pool takes both ends, and both grades for
equally likely. Every query counts from the start, at its worst for the end that is looked at, and
bounds only ever get nearer to each other. So no choice of pairs moves the mean, and the verdict is
the one that all judgements would give, however often it is looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import UnknownName
from harness.measures.unjudged.bounds import RATIOS, Bounding, Case

STRENGTH = 5.0
"""Judged documents at a rank from which on what was found there outweighs what is assumed."""
ROUNDING = 1e-12
Floats = NDArray[np.float64]


class Next(NamedTuple):
    """A pair to judge."""

    gain: float
    """How far the end of its query's difference is expected to move."""
    query_id: str
    doc_id: str


class Ends(NamedTuple):
    """Worst and best difference of one query, each counted against what it would prove."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Settling:
    """A bound on the mean difference of two arms, and what its queries leave open.

    It keeps what it bounded, so it is for one comparison.
    """

    bounding: Bounding
    bound: float
    _known: dict[tuple[str, frozenset[tuple[str, int]]], Ends] = field(default_factory=dict)

    @classmethod
    def of(cls, bounding: Bounding, bound: float) -> Settling:
        """Take a measure whose bounds are exact while nothing is judged yet.

        Raises:
            UnknownName: it is none.
        """
        name = bounding.asked.name
        if name not in RATIOS:
            raise UnknownName("measure for the order settle", name, ("nDCG@k", "P@k", "R@k"))
        return cls(bounding, bound)

    def ends(self, query_id: str, case: Case) -> Ends:
        """Bound one query.

        A query without a relevant document does not count. While none is known, it may not count,
        and so its ends prove nothing beyond the bound.
        """
        key = query_id, frozenset(case.grades.items())
        if key not in self._known:
            self._known[key] = self._ends(case)
        return self._known[key]

    def _ends(self, case: Case) -> Ends:
        if self.bounding.defined(case):
            return Ends(*self.bounding.difference(case))
        if not self.bounding.unjudged(case):
            return Ends(self.bound, self.bound)
        worst, best = self.bounding.difference(case)
        return Ends(min(worst, self.bound), max(best, self.bound))

    def values(self, cases: Mapping[str, Case]) -> Floats:
        """Give the ends of all queries, shape (queries, 2)."""
        found = [self.ends(query_id, case) for query_id, case in cases.items()]
        return np.array(found, dtype=np.float64).reshape(-1, 2)

    def upward(self, cases: Mapping[str, Case]) -> bool:
        """Tell whether the mean is rather above the bound, the middle of each query taken."""
        return bool(self.values(cases).mean() >= self.bound)

    def following(self, cases: Mapping[str, Case], size: int) -> list[Next]:
        """Give the next pairs, at most ``size``, the most decisive first.

        Of a query's pairs each comes after its better ones, which count as given the likelier
        grade by then. Where no pair moves the likelier end, those that move the other are given.
        """
        up, likely = self.upward(cases), Likely.of(self.bounding, cases.values())
        first = self._toward(cases, likely, size, end=0 if up else 1)
        return first or self._toward(cases, likely, size, end=1 if up else 0)

    def _toward(
        self, cases: Mapping[str, Case], likely: Likely, size: int, *, end: int
    ) -> list[Next]:
        now = dict(cases)
        each = (self._next(query_id, case, likely, end) for query_id, case in now.items())
        waiting = [(-one.gain, one.query_id, one.doc_id) for one in each if one]
        heapq.heapify(waiting)
        found: list[Next] = []
        while waiting and len(found) < size:
            negative, query_id, doc_id = heapq.heappop(waiting)
            found.append(Next(-negative, query_id, doc_id))
            grade = self.bounding.scale[-1] if likely.expects(now[query_id], doc_id) else 0
            now[query_id] = now[query_id].with_judged(doc_id, grade)
            after = self._next(query_id, now[query_id], likely, end)
            if after:
                heapq.heappush(waiting, (-after.gain, after.query_id, after.doc_id))
        return found

    def _next(self, query_id: str, case: Case, likely: Likely, end: int) -> Next | None:
        """Find the pair of a query whose judgement is expected to move that end most."""
        here, top = self.ends(query_id, case)[end], self.bounding.scale[-1]
        best: Next | None = None
        for doc_id in self.bounding.unjudged(case):
            chance = likely.of_pair(case, doc_id)
            graded = ((chance, top), (1 - chance, 0))
            there = sum(
                share * self.ends(query_id, case.with_judged(doc_id, grade))[end]
                for share, grade in graded
            )
            gain = abs(there - here)
            if gain > ROUNDING and (best is None or gain > best.gain):
                best = Next(gain, query_id, doc_id)
        return best


@dataclass(frozen=True, slots=True)
class Likely:
    """How likely a document is to be relevant, by the better of its two ranks."""

    judged: Mapping[int, int]
    relevant: Mapping[int, int]

    @classmethod
    def of(cls, bounding: Bounding, cases: Iterable[Case]) -> Likely:
        """Count what is judged of what the arms show."""
        judged: dict[int, int] = {}
        relevant: dict[int, int] = {}
        for case in cases:
            for doc_id, grade in case.grades.items():
                rank = _rank(case, doc_id)
                judged[rank] = judged.get(rank, 0) + 1
                relevant[rank] = relevant.get(rank, 0) + (bounding.gain(grade) > 0)
        return cls(judged, relevant)

    def expects(self, case: Case, doc_id: str) -> bool:
        """Tell whether a document is rather relevant than not."""
        return self.of_pair(case, doc_id) > 1 / 2

    def of_pair(self, case: Case, doc_id: str) -> float:
        """Take the share that was relevant at this rank, drawn towards 1 / (rank + 1)."""
        rank = _rank(case, doc_id)
        assumed = STRENGTH / (rank + 1)
        return (assumed + self.relevant.get(rank, 0)) / (STRENGTH + self.judged.get(rank, 0))


def _rank(case: Case, doc_id: str) -> int:
    """Better of a document's two ranks, from 1; one behind the longer list if no arm shows it."""
    shown = (case.control, case.candidate)
    ranks = [ids.index(doc_id) for ids in shown if doc_id in ids]
    return 1 + min(ranks, default=max(map(len, shown)))
