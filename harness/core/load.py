"""Results of an open-loop load test, as a gate uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AtRate:
    """One arm at one arrival rate, round by round."""

    system_ns: Mapping[str, Floats]
    """By percentile (``p50`` to ``p99``), shape (rounds,): nanoseconds from the intended start
    within which such a share of all arrivals was answered; infinite where fewer were at all."""
    busy: Floats
    """Shape (rounds,): share of the processors that other programs used just before a round."""
    objections: tuple[str, ...]
    """Why other rounds do not count, one text each."""
    arrivals: int
    """Arrivals of the round with the fewest."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Arms with the same arrivals, in rounds."""

    at: Mapping[str, Mapping[float, AtRate]]
    """By arm and rate, arrivals a second."""
    noise: Mapping[float, Floats]
    """By rate, shape (rounds,): p99 of the first arm's second opening over that of its first."""
    reference_ns: NDArray[np.int64]
    """The reference work of ``harness.replay.reference`` before each trial, shape (times,)."""
    machine: str
    loaded_at: str
    """When its first trial began: UTC, ISO 8601."""
