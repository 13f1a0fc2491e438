"""How many queries it takes before the bound for bounded means can clear a margin at all."""

from __future__ import annotations

import math

import numpy as np

from harness.core.errors import EvidenceError
from harness.stats.bounded import Span, bounded_each
from harness.stats.sequential.evalues import times_needed

ROUNDED = 1.05
"""The bound errs so far to the safe side at most."""
ALIKE = 100
"""Queries of a sample of one value; its count is the unknown."""


def unseen_loss(largest: float, level: float) -> float:
    """Give the loss that queries without one never exclude, as a share of the largest loss.

    Clusters that have the share ``largest`` of the queries each may be as many as go unseen with
    probability ``level``.
    """
    odds = -math.log(level) * largest
    return odds / (1 + odds)


def min_queries(
    value: float, bound: float, *, span: Span, level: float, largest: float = 0.0
) -> int:
    """Count the queries that it takes for a low end above ``bound``, were each of one ``value``.

    For no difference at all (0), a margin of 0.02 and a level of 2.5 % it is 188.

    Raises:
        EvidenceError: the bound is not below the value, or the value not within the span; or
            clusters of the share ``largest`` may hide the bound.
    """
    if not span.least <= bound < value <= span.most:
        raise EvidenceError(f"no number of queries with {value:g} shows a mean above {bound:g}")
    one = np.full((1, 1), value)
    share = (value - bound) / (value - span.least)
    if share <= ROUNDED * unseen_loss(largest, level):
        raise EvidenceError(
            f"clusters of {largest:.2%} of the queries may hide a mean of {bound:g} from any number"
            " of queries; lower largest_cluster"
        )
    count = 1 if share == 1 else math.ceil(math.log(level) / math.log1p(-share))

    def shown(count: int) -> bool:
        ends = bounded_each(
            one, span=span, level=level, clusters=None, largest=largest, times=count
        )
        return float(ends.low[0]) > bound

    while not shown(count):
        count += 1
    return count


def min_queries_at_every_look(value: float, bound: float, *, span: Span, level: float) -> int:
    """Count the same for an interval that holds at every look while queries are added.

    Raises:
        EvidenceError: as ``min_queries``; or more are needed than anybody can judge.
    """
    if not span.least <= bound < value <= span.most:
        raise EvidenceError(f"no number of queries with {value:g} shows a mean above {bound:g}")
    alike = np.full(ALIKE, value)
    times = times_needed(alike, bound, span=span, confidence=1 - 2 * level, clusters=None)
    if times is None:
        raise EvidenceError(f"a mean above {bound:g} takes more queries than anybody can judge")
    return math.ceil(ALIKE * times)
