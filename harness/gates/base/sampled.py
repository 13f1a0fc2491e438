"""The mean of bounded values over queries: its span, and the queries that would settle it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.printable import counted
from harness.gates.base.rules import Rules
from harness.measures.spans import span_of
from harness.stats.bounded import Span
from harness.stats.sample_size.enough import min_queries
from harness.stats.sample_size.power import queries_needed
from harness.stats.sequential.evalues import times_needed

HOPELESS = 20
"""Above this multiple of the present queries, more judging is not suggested."""


def known_span(measure: str) -> Span:
    """Give the least and the greatest value of ``measure``.

    Raises:
        EvidenceError: they are unknown.
    """
    span = span_of(measure)
    if span is None:
        raise EvidenceError(f"{measure} has no known least and greatest value; judge by another")
    return span


def needed_at_every_look(
    values: NDArray[np.float64],
    bound: float,
    *,
    span: Span,
    clusters: NDArray[np.int64] | None,
    rules: Rules,
) -> str:
    """Give the number of queries that would settle it, by an interval valid at every look."""
    now = len(values)
    times = times_needed(
        values,
        bound,
        span=span,
        confidence=rules.confidence,
        clusters=clusters,
        largest=rules.largest_cluster,
    )
    if times is None:
        return (
            "the difference is close to the bound: more queries will not help, change the candidate"
        )
    count = max(math.ceil(times * now), now + 1)
    return (
        f"about {counted(count, 'judged query')} (now {now:,}), if they come like these; they may"
        " be added in any number of steps"
    )


def needed(
    values: NDArray[np.float64],
    bound: float,
    *,
    best: float,
    span: Span,
    clusters: NDArray[np.int64] | None,
    rules: Rules,
) -> str:
    """Give the number of queries that would settle on which side of ``bound`` the mean lies.

    ``best`` is the value of each query in the best case: no difference, or full agreement. If the
    present queries are too few even then, the answer says so.
    """
    now = len(values)
    count = queries_needed(
        values,
        bound=bound,
        span=span,
        confidence=rules.confidence,
        power=rules.power,
        clusters=clusters,
        largest=rules.largest_cluster,
    )
    if count is None:
        return (
            "the mean is the bound itself: more queries will not help;"
            " change the candidate, or the bound and its reason"
        )
    level, largest = rules.level / 2, rules.largest_cluster
    try:
        few = bound < best
        least = min_queries(best, bound, span=span, level=level, largest=largest) if few else 0
    except EvidenceError as error:
        return str(error)
    many = max(count, least, now + 1)
    asked = f"about {counted(many, 'judged query')} (now {now:,}) for power {rules.power:g}"
    if now < least:
        return f"{asked}; fewer than {least:,} leave room for a loss that none of them shows"
    if count > HOPELESS * now:
        return (
            f"{asked}: the difference is close to the bound, more queries will hardly help, change"
            " the candidate"
        )
    return f"{asked}; the number is as uncertain as the mean"
