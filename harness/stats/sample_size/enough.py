"""How many queries it takes before the bound for bounded means can clear a margin at all."""

from __future__ import annotations

import math

import numpy as np

from harness.core.errors import EvidenceError
from harness.stats.bounded import Span, bounded_each
from harness.stats.sequential.evalues import times_needed

ALIKE = 100
"""Queries of a sample of one value; its count is the unknown."""


def min_queries(value: float, bound: float, *, span: Span, level: float) -> int:
    """Count the queries that it takes for a low end above ``bound``, were each of one ``value``.

    For no difference at all (0), a margin of 0.02 and a level of 2.5 % it is 188.

    Raises:
        EvidenceError: the bound is not below the value, or the value not within the span.
    """
    if not span.least <= bound < value <= span.most:
        raise EvidenceError(f"no number of queries with {value:g} shows a mean above {bound:g}")
    one = np.full((1, 1), value)
    share = (value - bound) / (value - span.least)
    count = 1 if share == 1 else math.ceil(math.log(level) / math.log1p(-share))
    while bounded_each(one, span=span, level=level, clusters=None, times=count).low[0] <= bound:
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
