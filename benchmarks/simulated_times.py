"""How often intervals of a percentile hold it where each time clings to the one before."""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri

from benchmarks.simulated_differences import CONFIDENCE, SEED, Floats
from harness.stats.times.series import series_interval


def clinging(percent: float, phi: float, times: int, trials: int) -> tuple[float, float]:
    """Share of intervals of a percentile that hold it, and of series that have an interval.

    Logarithms of the times are AR(1) with coefficient ``phi``.
    """
    truth = 1e6 * math.exp(0.3 * float(ndtri(percent / 100)))
    found = [
        series_interval((1e6 * np.exp(0.3 * row)).astype(np.int64), percent, confidence=CONFIDENCE)
        for row in series(phi, times, trials)
    ]
    given = [each for each in found if each is not None]
    held = [each.low <= truth <= each.high for each in given]
    return float(np.mean(held)) if held else math.nan, len(given) / trials


def stationary(percent: float, phi: float, times: int, trials: int) -> float:
    """Share of intervals of the stationary bootstrap that hold the percentile.

    Politis and Romano, JASA 89 (1994); blocks of ``times ** (1/3)`` on average, 400 draws.
    """
    rng, places = np.random.default_rng(SEED), np.arange(times)
    truth, held = float(ndtri(percent / 100)), 0
    for row in series(phi, times, trials):
        fresh = rng.random((400, times)) < times ** (-1 / 3)
        fresh[:, 0] = True
        begun = np.maximum.accumulate(np.where(fresh, places, 0), axis=1)
        starts = np.take_along_axis(rng.integers(0, times, (400, times)), begun, axis=1)
        drawn = np.percentile(row[(starts + places - begun) % times], percent, axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        held += bool(low <= truth <= high)
    return held / trials


def series(phi: float, times: int, trials: int) -> Floats:
    """AR(1) with coefficient ``phi``, mean 0 and variance 1, shape (trials, times)."""
    fresh = np.random.default_rng(SEED).normal(size=(trials, times + 200))
    level: Floats = lfilter([math.sqrt(1 - phi**2)], [1, -phi], fresh, axis=1)[:, 200:]
    return level
