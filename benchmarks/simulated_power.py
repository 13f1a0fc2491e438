"""How often as many queries as were promised to settle a question do settle it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from benchmarks.simulated_differences import CONFIDENCE, SEED, Case, Floats
from harness.stats.bounded import Span
from harness.stats.inference import Inference
from harness.stats.interval import interval
from harness.stats.sample_size.power import queries_needed

POWER = 0.8
DIFFERENCES = Span(-1.0, 1.0)
RESAMPLES = 1_000
MOST = 5_000
"""Queries that are drawn; a promise of more is counted as kept or broken by so many."""


class Delivered(NamedTuple):
    """What came of promises made from pilots that settled nothing."""

    open: int
    """Pilots that settled nothing."""
    settled: float
    """Share of the promised samples that settled it."""
    queries: int
    """Median of the promises."""
    as_seen: float
    """The same for counts from the observed mean and spread alone, by the normal distribution."""
    as_seen_queries: int


def delivered(case: Case, *, pilot: int, bound: float, trials: int) -> Delivered | None:
    """Draw pilots, promise, draw as many queries anew, and look at their interval.

    None where every pilot settled it.
    """
    rng = np.random.default_rng((SEED, pilot, trials))
    outcomes = []
    for _ in range(trials):
        seen = case.draw(rng, (pilot,))
        if _settled(seen, bound):
            continue
        counts = (_promised(seen, bound), _as_seen(seen, bound))
        outcomes.append([(n, _settled(case.draw(rng, (n,)), bound)) for n in counts])
    if not outcomes:
        return None
    counted = np.array(outcomes, dtype=np.float64).reshape(-1, 2, 2)
    medians, shares = np.median(counted[..., 0], axis=0), counted[..., 1].mean(axis=0)
    return Delivered(len(counted), shares[0], int(medians[0]), shares[1], int(medians[1]))


def _settled(values: Floats, bound: float) -> bool:
    found = interval(
        values,
        span=DIFFERENCES,
        inference=Inference(confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED),
        clusters=None,
    )
    return found.low > bound or found.high < bound


def _promised(seen: Floats, bound: float) -> int:
    found = queries_needed(
        seen, bound=bound, span=DIFFERENCES, confidence=CONFIDENCE, power=POWER, clusters=None
    )
    return min(MOST, found or MOST)


def _as_seen(seen: Floats, bound: float) -> int:
    gap = abs(float(seen.mean()) - bound) or math.inf
    z = float(ndtri((1 + CONFIDENCE) / 2) + ndtri(POWER))
    return max(2, min(MOST, math.ceil((z * float(seen.std(ddof=1)) / gap) ** 2)))
