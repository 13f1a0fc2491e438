"""Which queries people judge next, if a bound on a mean difference is to be settled soon.

Before anything is judged, two rankings say how much a query can move the difference at most: little
where they share their first documents. So queries come in a drawn order, and each is judged, whole,
with a probability in proportion to that. Its difference counts by the inverse (Horvitz and
Thompson, JASA 47, 1952). So the mean is that of all queries, and no query counts for more than the
largest difference there can be. Auditors sample accounts in this way (Shekhar, Xu, Lipton, Liang
and Ramdas, "Risk-limiting financial audits via weighted sampling without replacement", UAI 2023).

Order and probabilities rest on the rankings and a seed alone, and the evidence is that of
``harness.stats.sequential.evalues``. So the verdict may be looked at after every query, and a false
one comes with (1 - confidence) / 2 at most on each side, over all looks together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from harness.core.errors import UnknownName
from harness.core.gate import Verdict
from harness.measures.unjudged.bounds import RATIOS, Bounding, Case
from harness.stats.bounded import Span
from harness.stats.sequential.evalues import p_above

FEWEST = 3
"""Drawn clusters with a value below which nothing is said."""


class Drawn(NamedTuple):
    """Queries that are judged together: one, or those of a cluster."""

    query_ids: tuple[str, ...]
    chance: float
    """With which they were to be judged."""


class Look(NamedTuple):
    """What is known after some judgements."""

    verdict: Verdict
    """Of "the mean difference lies above the bound"."""
    judged: int
    """Drawn clusters that were judged whole, up to the first that was not, or to the verdict."""
    drawn: int
    """All that were drawn."""
    missing: tuple[tuple[str, str], ...]
    """Pairs that come next, query by query."""
    mean: float | None
    """Estimate of the mean difference; None while no query with a value was judged."""


@dataclass(frozen=True, slots=True)
class Settling:
    """A bound on the mean difference of two arms, and the queries that were drawn to settle it."""

    bounding: Bounding
    bound: float
    drawn: tuple[Drawn, ...]

    @classmethod
    def of(
        cls,
        bounding: Bounding,
        bound: float,
        cases: Mapping[str, Case],
        clusters: Mapping[str, str],
        seed: int,
    ) -> Settling:
        """Draw from all queries; their judgements are not looked at.

        Raises:
            UnknownName: the measure has no exact bounds while nothing is judged.
        """
        name = bounding.asked.name
        if name not in RATIOS:
            raise UnknownName("measure for the order settle", f"{name}@k", ("nDCG@k", "P@k", "R@k"))
        units: dict[tuple[bool, str], list[str]] = {}
        for query_id in sorted(cases):
            unit = query_id in clusters, clusters.get(query_id, query_id)
            units.setdefault(unit, []).append(query_id)
        placed: list[tuple[float, Drawn]] = []
        for (_, label), query_ids in units.items():
            rng = Random(f"{seed} {label}")
            place, coin = rng.random(), rng.random()
            chance = max(_chance(bounding, bound, cases[query_id]) for query_id in query_ids)
            if coin < chance:
                placed.append((place, Drawn(tuple(query_ids), chance)))
        return cls(bounding, bound, tuple(one for _, one in sorted(placed)))

    def look(self, cases: Mapping[str, Case], *, confidence: float) -> Look:
        """Judge by what is judged, in the drawn order up to the first query that is not."""
        values: list[float] = []
        weights: list[float] = []
        for judged, (query_ids, chance) in enumerate(self.drawn):
            each = [cases[query_id] for query_id in query_ids]
            if any(self.bounding.unjudged(case) for case in each):
                missing = self._missing(cases, judged)
                return self._open(judged, missing, values, weights)
            known = [self._difference(case) for case in each if self.bounding.defined(case)]
            if not known:
                continue
            values.append((float(np.mean(known)) - self.bound) / chance)
            weights.append(1 / chance)
            verdict = self._verdict(values, confidence)
            if verdict is not Verdict.INCONCLUSIVE:
                return self._open(judged + 1, (), values, weights)._replace(verdict=verdict)
        return self._open(len(self.drawn), (), values, weights)

    def _difference(self, case: Case) -> float:
        return self.bounding.difference(case).worst

    def _missing(self, cases: Mapping[str, Case], since: int) -> tuple[tuple[str, str], ...]:
        """List what is unjudged, query by query, each query's documents in an order of its own."""
        found: list[tuple[str, str]] = []
        for query_ids, _ in self.drawn[since:]:
            for query_id in query_ids:
                docs = list(self.bounding.unjudged(cases[query_id]))
                Random(query_id).shuffle(docs)
                found += [(query_id, doc_id) for doc_id in docs]
        return tuple(found)

    def _open(
        self,
        judged: int,
        missing: tuple[tuple[str, str], ...],
        values: Sequence[float],
        weights: Sequence[float],
    ) -> Look:
        mean = self.bound + sum(values) / sum(weights) if weights else None
        return Look(Verdict.INCONCLUSIVE, judged, len(self.drawn), missing, mean)

    def _verdict(self, values: Sequence[float], confidence: float) -> Verdict:
        """Bet on either side of the bound; a query that was not drawn wins and loses nothing."""
        if len(values) < FEWEST:
            return Verdict.INCONCLUSIVE
        above = np.array(values)
        most, level = 1 + abs(self.bound), (1 - confidence) / 2
        span = Span(-most, most)
        if p_above(above.clip(*span), 0.0, span=span, clusters=None) <= level:
            return Verdict.PASS
        below = p_above(-above.clip(*span), 0.0, span=span, clusters=None)
        return Verdict.FAIL if below <= level else Verdict.INCONCLUSIVE


def _chance(bounding: Bounding, bound: float, case: Case) -> float:
    """Give the probability with which a query is judged: its largest distance to the bound.

    As a share of the largest that any query can have. Inverse probabilities then never make a
    query count for more than that.
    """
    nothing = case._replace(grades={})
    if not bounding.unjudged(nothing):
        return 0.0
    most = max(map(abs, bounding.difference(nothing)))
    return (most + abs(bound)) / (1 + abs(bound))


def scale_of(bounding: Bounding) -> range:
    """Give a scale by which a query's bounds do not depend on the judgements.

    A ratio of sums over levels of gain is largest at one level alone, so one relevant grade does.
    """
    return range(max(1, bounding.asked.rel) + 1)
