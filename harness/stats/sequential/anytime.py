"""The confidence sequence of a whole stream at once, and the values still needed to decide.

The bets are those of ``betting``. There, values come one by one, and an end is known to one step.
Here all values are given, and an end is searched among all means. The capital of a bet against a
mean is monotone in that mean, so bisection finds the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import log1p
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.sequential.betting import MOST, check_range

PRECISION = 1e-10
"""Precision of an end, as a share of the range."""
FORESIGHT = 64
"""Largest forecast, as a multiple of the present values."""

Floats = NDArray[np.float64]


def stakes_of(values: Floats, confidence: float) -> Floats:
    """Give the bets on each of ``values``, shape (values,): those of ``Stakes``, all at once."""
    reach = 2 * math.log(2 / (1 - confidence))
    at = np.arange(1, len(values) + 1, dtype=np.float64)
    centre = (0.5 + np.cumsum(values)) / (at + 1)
    squares = 0.25 + np.concatenate([[0.0], np.cumsum((values - centre) ** 2)[:-1]])
    return np.sqrt(reach / (squares * log1p(at)))


def anytime(values: Floats, *, confidence: float, least: float, most: float) -> Estimate:
    """Mean of values in the order they came, shape (values,), and its confidence sequence's end.

    The ends are those of ``BettingSequence`` without its steps: a mean is outside if the capital
    against it reached the limit after any of the values. If all means are outside, the low end lies
    above the high one: the expected mean changed during the stream.

    Raises:
        EvidenceError: values are missing, one is outside the range or not a number, the range is
            empty, or the confidence is not between 0 and 1.
    """
    units = _units(values, confidence, least, most)
    stakes, rich = stakes_of(units, confidence), math.log(2 / (1 - confidence))
    low = _edge(lambda mean: _capital(stakes, units, mean).max() >= rich)
    high = 1 - _edge(lambda mean: _capital(stakes, 1 - units, mean).max() >= rich)
    width = most - least
    return Estimate(float(values.mean()), least + width * low, least + width * high, len(values))


def ever_beyond(
    values: Floats, *, bound: float, above: bool, confidence: float, least: float, most: float
) -> bool:
    """Tell whether the interval lay wholly above ``bound`` (or below it), after any of the values.

    For a mean that is never beyond the bound, the error rate is at most (1 - confidence) / 2,
    whether the mean changes or not.

    Raises:
        EvidenceError: as ``anytime``.
    """
    units, mean = _units(values, confidence, least, most), (bound - least) / (most - least)
    stakes, rich = stakes_of(units, confidence), math.log(2 / (1 - confidence))
    path = _capital(stakes, units, mean) if above else _capital(stakes, 1 - units, 1 - mean)
    return bool(path.max() >= rich)


def values_needed(
    values: Floats, *, bound: float, confidence: float, least: float, most: float
) -> int | None:
    """Count the values until ``bound`` is excluded, if further values repeat the present ones.

    Further values repeat the present ones in their order. None if ``FORESIGHT`` times as many are
    not enough, as with a mean on the bound.

    Raises:
        EvidenceError: as ``anytime``.
    """
    once = _units(values, confidence, least, most)
    rich, mean = math.log(2 / (1 - confidence)), (bound - least) / (most - least)
    above = once.mean() > mean
    again = 1
    while again <= FORESIGHT:
        units = np.tile(once, again)
        stakes = stakes_of(units, confidence)
        path = _capital(stakes, units, mean) if above else _capital(stakes, 1 - units, 1 - mean)
        if (past := path >= rich).any():
            return int(past.argmax()) + 1
        again *= 2
    return None


def _capital(stakes: Floats, units: Floats, mean: float) -> Floats:
    """Logarithm of what betting on more than ``mean`` has made of 1, after each value.

    Betting on less is the same with values and mean taken from 1. The cut is that of ``gains``.
    """
    bets = np.minimum(stakes, MOST / mean) if mean > 0 else stakes
    return np.cumsum(log1p(bets * (units - mean)))


def _edge(left_out: Callable[[float], bool]) -> float:
    """Give the greatest mean that is left out from below, 0 where none is."""
    if not left_out(0.0):
        return 0.0
    inside, outside = 1.0, 0.0
    while inside - outside > PRECISION:
        middle = (inside + outside) / 2
        if left_out(middle):
            outside = middle
        else:
            inside = middle
    return outside


def _units(values: Floats, confidence: float, least: float, most: float) -> Floats:
    """Values as shares of their range.

    Raises:
        EvidenceError: as ``anytime``.
    """
    check_range(confidence, least, most)
    if not len(values):
        raise EvidenceError("no value came yet; ask for an interval after the first")
    units = (values - least) / (most - least)
    if wrong := values[~((units >= 0) & (units <= 1))].tolist():
        raise EvidenceError(
            f"a value of {wrong[0]} lies outside [{least}, {most}]; give the range that values"
            " can have"
        )
    return units
