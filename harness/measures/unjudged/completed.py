"""The worst and the best difference of many queries over all completions, and each hit alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import log2
from harness.measures.unjudged.bounds import Bounding

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
STEPS = 100
"""More than Dinkelbach's method takes: each step but the last takes another completion."""


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
    """What completions do to the difference of each query; see ``Missing``."""

    difference: Floats
    worst: Floats
    best: Floats
    loss: Floats
    gain: Floats


def effects_of_rr(hits: Hits, may_be_relevant: bool) -> Effects:  # noqa: FBT001  a fact
    """Give the effects on the reciprocal rank: one further relevant document is enough.

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

    The difference of two arms has this form too (``harness.measures.unjudged.ratio``).
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
    def defined(self) -> NDArray[np.bool_]:
        """Queries with a value, shape (queries,): something is relevant, also for P."""
        return self.hits.answerable

    @property
    def bottom(self) -> Floats:
        """What is below the line as it is judged, shape (queries,)."""
        found = np.full(self.hits.queries, self.constant)
        for gain, judged in self.levels:
            found += gain * self.ideal[judged]
        return np.where(self.defined, found, 1.0)

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
        """Give the largest ratio of each query over all completions, by Dinkelbach's method.

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
        moving = np.flatnonzero(counts)
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
