"""How many queries are planned before anything is judged, where the truth is assumed.

Topic set size design (Sakai, "Topic set size design", Information Retrieval Journal 19, 2016), with
the interval that will decide in the place of Student's test. The spread is that of a pilot, or is
assumed. A pilot's spread is uncertain, so plans use its upper limit at 80 %. Then four pilots of
five lead to enough queries (Browne, "On the use of a pilot sample for sample size determination",
Statistics in Medicine 14, 1995).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, chdtri, ndtr

from harness.core.errors import EvidenceError
from harness.stats.bounded import Span
from harness.stats.proportion import size_for
from harness.stats.sample_size.enough import min_queries
from harness.stats.sample_size.power import MAX_QUERIES, Pilot, solved

ASSURANCE = 0.8
"""Share of pilots whose upper limit of the spread is not below the true one."""
MADE = 2_000
"""Queries of a sample that stands for an assumed spread."""
LEAST = 0.01
"""Smallest spread that may be assumed, as a share of the largest possible difference."""
STEP = 1.01
"""Numbers of queries nearer than this factor are one plan."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Target(NamedTuple):
    """What an interval must show, and where the truth is assumed to be."""

    truth: float
    bound: float
    both_sides: bool = False
    """Whether it must lie within the bound on both sides of 0."""


def assumed(spread: float, *, truth: float, span: Span) -> Floats:
    """Make differences of a given mean and standard deviation, as extreme as they can be.

    Every query that moves, moves as far as ``span`` allows. Of all samples of that spread these
    leave the most room for unseen losses. Shape (queries,).

    Raises:
        EvidenceError: no values within the span have such a spread.
    """
    far = min(span.most - truth, truth - span.least)
    share = (spread / far) ** 2 if far > 0 else math.inf
    if not LEAST**2 <= share <= 1:
        raise EvidenceError(
            f"differences of mean {truth:g} within {span.least:g} and {span.most:g} cannot have a"
            f" standard deviation of {spread:g}; from {LEAST * far:g} to {far:g} they can"
        )
    moved = max(1, round(MADE * share / 2))
    values = np.full(max(2 * moved, round(2 * moved / share)), truth)
    values[:moved] += far
    values[-moved:] -= far
    return values


def upper_spread(pilot: Pilot) -> float:
    """Give the upper limit of the spread per query, at 80 %."""
    return pilot.spread * math.sqrt(pilot.df / float(chdtri(pilot.df, ASSURANCE)))


def planned(
    values: Floats,
    wanted: Target,
    *,
    span: Span,
    confidence: float,
    power: float,
    clusters: Codes | None,
    largest: float = 0.0,
    known: bool = False,
) -> int | None:
    """Count the queries whose interval meets the goal with ``power``, if the truth is as assumed.

    ``values``, shape (queries,), are the pilot's. Only their form and the upper limit of their
    spread are used; the spread itself where it is ``known``. None where no number would do.

    Raises:
        EvidenceError: fewer than two independent queries; or clusters may hide the bound.
    """
    pilot = Pilot.of(values, span=span, clusters=clusters, largest=largest)
    spread = pilot.spread if known else upper_spread(pilot)
    room = abs(wanted.truth - wanted.bound)
    if wanted.both_sides:
        room = min(wanted.bound - wanted.truth, wanted.bound + wanted.truth)
    if room <= 0:
        return None
    level = (1 - confidence) / 2
    if not spread and (wanted.both_sides or wanted.truth > wanted.bound):
        low = wanted.truth - room
        return min_queries(wanted.truth, low, span=span, level=level, largest=largest)
    at_truth = _moved(pilot, wanted.truth, spread / pilot.spread if pilot.spread else 1.0)

    def chance(queries: float, reach: float) -> float:
        error = spread / math.sqrt(queries)
        if error == 0:
            return float(room > reach)
        clears = float(ndtr((room - reach) / error))
        return 2 * clears - 1 if wanted.both_sides else clears

    return solved(at_truth, level, power, chance, upwards=wanted.truth < wanted.bound)


def _moved(pilot: Pilot, truth: float, wider: float) -> Pilot:
    """Move a pilot's values to another mean and spread; they stay within their span."""
    values = truth + wider * (pilot.values - pilot.mean)
    return Pilot.of(
        np.clip(values, *pilot.span),
        span=pilot.span,
        clusters=pilot.clusters,
        largest=pilot.largest,
    )


def planned_equal(
    moved: float, wanted: Target, *, span: Span, confidence: float, power: float, largest: float
) -> int | None:
    """Count the queries that pass an equal candidate, of which a share ``moved`` of them moves.

    Each of these moves by half of the span, up as often as down. None where no number would do.
    """
    count = round(MADE * moved / 2)
    values = np.full(MADE, wanted.truth)
    values[:count] += span.most / 2
    values[len(values) - count :] += span.least / 2
    return planned(
        values, wanted, span=span, confidence=confidence, power=power, clusters=None,
        largest=largest, known=True,
    )  # fmt: skip


def planned_share(rate: float, *, ceiling: float, confidence: float, power: float) -> int | None:
    """Count the queries that show a share below ``ceiling`` with ``power``, were it ``rate``.

    None where the rate is not below the ceiling.
    """
    if rate >= ceiling:
        return None
    tail = (1 - confidence) / 2
    count = size_for(0, ceiling=ceiling, confidence=confidence)
    while _shown(count, rate, ceiling, tail) < power:
        count = math.ceil(count * STEP)
        if count > MAX_QUERIES:
            return None
    return count


def _shown(queries: int, rate: float, ceiling: float, tail: float) -> float:
    """Chance that so few queries go wrong that the exact interval lies below the ceiling."""
    if rate == 0:
        return 1.0
    few = np.arange(math.floor(queries * ceiling) + 1)
    fine = few[betaincinv(few + 1, queries - few, 1 - tail) < ceiling]
    return float(bdtr(int(fine.max()), queries, rate)) if len(fine) else 0.0
