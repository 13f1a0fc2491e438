"""Bounds of differences over all completions of missing judgements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import log2
from harness.core.errors import UnknownName
from harness.measures.kernels import MeasureSpec
from harness.measures.name import as_gains, parse

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
STEPS = 100
"""More than Dinkelbach's method takes: each step but the last takes another completion."""
TOGETHER = 5_000
"""Queries that are searched at once, so that memory does not grow with all of them."""


def average_precision(
    shown: Sequence[str], judged: Mapping[str, bool], unjudged: Collection[str]
) -> tuple[float, float]:
    """Return the smallest and the largest AP of the documents ``shown``, down to the cutoff.

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


class Case(NamedTuple):
    """One query: the full lists of both arms, and their judgements."""

    control: tuple[str, ...]
    candidate: tuple[str, ...]
    grades: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Bounding:
    """Bounds of one measure under one scale of grades."""

    asked: MeasureSpec
    scale: tuple[int, ...]
    """Grades that a completion may give, the lowest, 0, first."""

    @classmethod
    def of(cls, measure: str, grades: Iterable[int]) -> Bounding:
        """Read a measure; ``grades`` are all that the judgements hold."""
        scale = sorted({0, *(grade for grade in grades if grade > 0)})
        asked = MeasureSpec.of(as_gains(parse(measure), scale))
        if asked is None or asked.judged_only or asked.name not in {*RATIOS, "RR", "AP"}:
            raise UnknownName("measure with bounds", measure, BOUNDED)
        return cls(asked, tuple(scale))

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

    def effects(self, hits: Hits) -> Effects:
        """Return what completions do to each difference, for other measures than AP."""
        if self.asked.name == "RR":
            return effects_of_rr(hits, self._may_be_relevant)
        return Ratios.of(hits, self).effects()

    def of_cases(self, cases: Sequence[Case]) -> Effects:
        """Return what completions do to each difference candidate - control.

        Those of AP, which is quadratic in the grades, are outer bounds, by the bounds of each arm;
        there each hit may move its query by all that is open.
        """
        if self.asked.name != "AP":
            return self.effects(self._hits(cases))
        found = []
        for case in cases:
            open_ = self.unjudged(case)
            whole = case._replace(grades={**dict.fromkeys(open_, 0), **case.grades})
            as_judged, _ = self._apart(whole)
            ends = self._apart(case) if open_ else (as_judged, as_judged)
            found.append((as_judged, *ends, len(open_)))
        now, worst, best, counts = np.array(found, dtype=np.float64).reshape(-1, 4).T
        of = np.repeat(np.arange(len(found)), counts.astype(np.int64))
        return Effects(now, worst, best, (now - worst)[of], (best - now)[of])

    def average_precision(self, case: Case, shown: Sequence[str]) -> tuple[float, float]:
        """Return the smallest and the largest AP of one arm of a case."""
        judged = {doc: self.gain(grade) > 0 for doc, grade in case.grades.items()}
        open_ = self.unjudged(case) if self._may_be_relevant else ()
        return average_precision(shown[: self.asked.cutoff], judged, open_)

    def _apart(self, case: Case) -> tuple[float, float]:
        """Return outer bounds of the difference in AP, as if each arm had judgements of its own."""
        control = self.average_precision(case, case.control)
        candidate = self.average_precision(case, case.candidate)
        return candidate[0] - control[1], candidate[1] - control[0]

    def _hits(self, cases: Sequence[Case]) -> Hits:
        """Lay out what both arms show, a row for each case."""
        shown: list[tuple[int, int, int, int, bool]] = []
        judged: list[tuple[int, int]] = []
        for row, case in enumerate(cases):
            old, new = (
                {doc_id: rank for rank, doc_id in enumerate(arm[: self.asked.cutoff], start=1)}
                for arm in (case.control, case.candidate)
            )
            for doc_id in {**old, **new}:
                known = doc_id in case.grades
                gain = self.gain(case.grades[doc_id]) if known else 0
                shown.append((row, old.get(doc_id, 0), new.get(doc_id, 0), gain, not known))
            judged += [(row, self.gain(grade)) for grade in case.grades.values()]
        columns = np.array(shown, dtype=np.int64).reshape(-1, 5).T
        of, gains = np.array(judged, dtype=np.int64).reshape(-1, 2).T
        query, control, candidate, gained, unjudged = columns
        return Hits(
            len(cases), query, control, candidate, gained.astype(np.float64),
            np.flatnonzero(unjudged), of, gains.astype(np.float64),
        )  # fmt: skip

    @property
    def _may_be_relevant(self) -> bool:
        return self.gain(self.scale[-1]) > 0


class Hits(NamedTuple):
    """What two arms show of each query within the cutoff; gains in the place of grades."""

    queries: int
    query: Rows
    """Shape (shown,), rising."""
    control: Rows
    """Rank from 1; 0 where the arm does not show it; shape (shown,)."""
    candidate: Rows
    gains: Floats
    """Shape (shown,): 0 for what is not judged."""
    open: Rows
    """Positions of what is not judged."""
    judged_query: Rows
    """Shape (judgements,): of every judgement, shown or not."""
    judged_gains: Floats

    @property
    def answerable(self) -> NDArray[np.bool_]:
        """Queries with a relevant document, shape (queries,)."""
        good = self.judged_query[self.judged_gains > 0]
        return np.bincount(good, minlength=self.queries) > 0


class Effects(NamedTuple):
    """What completions do to the difference of each query; see ``MissingJudgements``."""

    difference: Floats
    worst: Floats
    best: Floats
    loss: Floats
    gain: Floats

    def among(self, hits: Hits) -> Effects:
        """Spread what is of the answerable queries alone over all of ``hits``; 0 for the others."""
        answerable = hits.answerable
        open_ = answerable[hits.query[hits.open]]
        places = [answerable] * 3 + [open_] * 2
        spread = [np.zeros(len(place)) for place in places]
        for found, place, own in zip(spread, places, self, strict=True):
            found[place] = own
        return Effects(*spread)


def effects_of_rr(hits: Hits, may_be_relevant: bool) -> Effects:  # noqa: FBT001  a fact
    """Return the effects on the reciprocal rank: one further relevant document is enough.

    It is the first relevant one of the arm that is to gain; any other only helps the other arm.
    """
    each = [
        np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=ranks > 0)
        for ranks in (hits.control, hits.candidate)
    ]
    now = [np.zeros(hits.queries) for _ in each]
    good = np.flatnonzero(hits.gains > 0)
    for found, values in zip(now, each, strict=True):
        np.maximum.at(found, hits.query[good], values[good])
    before = now[1] - now[0]
    of = hits.query[hits.open]
    moved = [
        np.maximum(found[of], values[hits.open]) for found, values in zip(now, each, strict=True)
    ]
    after = moved[1] - moved[0] if may_be_relevant else before[of]
    worst, best = before.copy(), before.copy()
    np.minimum.at(worst, of, after)
    np.maximum.at(best, of, after)
    change = after - before[of]
    return Effects(before, worst, best, np.maximum(-change, 0), np.maximum(change, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """nDCG, P or R of many queries: a sum over documents by rank, divided by the best possible sum.

    The difference of two arms has this form too (``harness.measures.completion_bounds``).
    """

    hits: Hits
    base: Floats
    """Shape (queries,): the sum over the judged documents, candidate - control."""
    weights: Floats
    """Shape (open hits,): what each adds a unit of gain."""
    levels: tuple[tuple[float, Rows], ...]
    """Gain of each level above the one before, and the judged documents of it or above a query."""
    ideal: Floats
    """What the best list of n documents is worth a unit of gain, for n from 0."""
    constant: float
    """What is below the line whatever is judged."""

    @classmethod
    def of(cls, hits: Hits, wanted: Bounding) -> Ratios:
        """Sum what is judged."""
        name, cutoff = wanted.asked.name, wanted.asked.cutoff
        judged = np.bincount(hits.judged_query, minlength=hits.queries)
        unjudged = np.bincount(hits.query[hits.open], minlength=hits.queries)
        most = int((judged + unjudged).max(initial=0)) + 1
        depth = max(most if cutoff is None else cutoff, 1)
        worth = np.ones(depth) if name != "nDCG" else 1 / log2(np.arange(depth) + 2)
        by_rank = np.append(0.0, worth)
        each = by_rank[hits.candidate] - by_rank[hits.control]
        base = np.zeros(hits.queries)
        np.add.at(base, hits.query, each * hits.gains)
        ideal: Floats = np.append(0.0, np.cumsum(worth))[: most + 1]
        ideal = np.append(ideal, np.full(max(most + 1 - len(ideal), 0), ideal[-1]))
        constant = 0.0
        if name == "R":
            ideal = np.cumsum(np.append(0.0, np.ones(most)))
        elif name == "P":
            ideal, constant = np.zeros(most + 1), float(depth)
        gains = sorted({0, *map(wanted.gain, wanted.scale)})
        levels = tuple(
            (
                float(high - low),
                np.bincount(hits.judged_query[hits.judged_gains >= high], minlength=hits.queries),
            )
            for low, high in pairwise(gains)
        )
        return cls(hits, base, each[hits.open], levels, ideal, constant)

    @property
    def bottom(self) -> Floats:
        """What is below the line as it is judged, shape (queries,)."""
        found = np.full(self.hits.queries, self.constant)
        for gain, judged in self.levels:
            found += gain * self.ideal[judged]
        return np.where(self.hits.answerable, found, 1.0)

    def effects(self) -> Effects:
        """Bound each query, and each hit alone (``Missing.loss``).

        B and I stand above and below the line as judged, I_j below it with hit j relevant. Some
        hits S take ``B (1/I - 1/I_S) + sum(a_j) / I_S`` from the difference, where the control
        gains a_j by j. I is a submodular function of S that grows, so this is at most the sum
        over j of ``max(B, 0) (1/I - 1/I_j) + max(a_j, 0) / I_j``; the gains likewise.
        """
        bottom = self.bottom
        before = self.base / bottom
        negated = replace(self, base=-self.base, weights=-self.weights)
        of, top = self.hits.query[self.hits.open], sum(gain for gain, _ in self.levels)
        more = np.zeros(self.hits.queries)
        for gain, judged in self.levels:
            more += gain * (self.ideal[judged + 1] - self.ideal[judged])
        alone = (bottom + more)[of]
        thinner, moved = (1 / bottom[of] - 1 / alone), top * self.weights / alone
        base = self.base[of]
        return Effects(
            before,
            -negated.largest(),
            self.largest(),
            np.maximum(base, 0) * thinner + np.maximum(-moved, 0),
            np.maximum(-base, 0) * thinner + np.maximum(moved, 0),
        )

    def largest(self) -> Floats:
        """Return the largest ratio of each query over all completions, by Dinkelbach's method.

        Of all completions with the same counts by level, the best gives the highest levels to the
        documents that add most. So only counts by level are searched, for all queries at once.
        """
        of = self.hits.query[self.hits.open]
        counts = np.bincount(of, minlength=self.hits.queries)
        order = np.lexsort((-self.weights, of))
        place = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        each = np.zeros((self.hits.queries, int(counts.max(initial=0)) + 1))
        each[of[order], place + 1] = self.weights[order]
        sums = np.cumsum(each, axis=1)
        allowed = np.arange(sums.shape[1]) <= counts[:, None]
        bottom = self.bottom
        found = self.base / bottom
        for low in range(0, self.hits.queries, TOGETHER):
            moving = low + np.flatnonzero(counts[low : low + TOGETHER])
            for _ in range(STEPS):
                if not len(moving):
                    break
                top, below = self._best(moving, sums[moving], allowed[moving], found[moving])
                now = (self.base[moving] + top) / (bottom[moving] + below)
                better = now > found[moving]
                moving = moving[better]
                found[moving] = now[better]
        return found

    def _best(
        self, rows: Rows, sums: Floats, allowed: NDArray[np.bool_], price: Floats
    ) -> tuple[Floats, Floats]:
        """Find the completions that add most to ``top - price * bottom``."""
        top, below = np.zeros(sums.shape), np.zeros(sums.shape)
        counts = np.arange(sums.shape[1])
        for gain, judged in reversed(self.levels):
            at = np.minimum(judged[rows, None] + counts, len(self.ideal) - 1)
            top = gain * sums + top
            below = gain * (self.ideal[at] - self.ideal[at[:, :1]]) + below
            score = np.where(allowed, top - price[:, None] * below, -np.inf)
            best = np.maximum.accumulate(score, axis=1)
            first = np.maximum.accumulate(np.where(score == best, counts, 0), axis=1)
            top = np.take_along_axis(top, first, axis=1)
            below = np.take_along_axis(below, first, axis=1)
        return top[:, -1], below[:, -1]
