"""Simulated users on mixed lists: how often neither arm is better and one is called preferred."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.stats.bounded import Span
from harness.stats.sequential.evalues import SHARES

SEED = 20_261_124
LEVEL = 0.025
"""Of a preference for one named arm."""
Floats = NDArray[np.float64]


class Traffic(NamedTuple):
    """How a log comes about."""

    sessions: int
    """Of each user."""
    agreement: float
    """Share of users whose sessions all prefer the same arm; those of others are independent."""
    ties: float = 0.5
    """Share of sessions that prefer neither arm."""
    lead: float = 0.0
    """Chance of the candidate, less that of the control, in a session that prefers one."""


class Called(NamedTuple):
    """Shares of the trials in which the candidate was called preferred."""

    last: float
    """At the end."""
    ever: float
    """At any of the looks, while users come back."""


def called(traffic: Traffic, users: int, trials: int, looks: int = 20) -> Called:
    """Judge simulated logs; the users' sessions are spread evenly over the looks.

    Sessions of all users are mixed in time, so a user's preference changes from look to look.
    """
    rng = np.random.default_rng((SEED, users, traffic.sessions, round(1e3 * traffic.agreement)))
    shape = (trials, users, traffic.sessions)
    wins = (1 + traffic.lead) / 2
    signs = np.where(rng.random(shape) < wins, 1, -1) * (rng.random(shape) >= traffic.ties)
    own = np.where(rng.random(shape[:2]) < wins, 1, -1) * (rng.random(shape[:2]) >= traffic.ties)
    agree = rng.random(shape[:2]) < traffic.agreement
    signs = np.where(agree[..., None], own[..., None], signs)
    at = rng.random(shape)
    ever, last = np.zeros(trials, bool), np.zeros(trials, bool)
    for look in range(1, looks + 1):
        seen = at < look / looks
        known = seen.any(axis=2)
        values = np.sign((signs * seen).sum(axis=2)).astype(np.float64)
        last = above_zero(values, known)
        ever |= last
    return Called(float(last.mean()), float(ever.mean()))


def above_zero(values: Floats, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return in which rows the low end of ``evalues_each`` over the known users lies above 0."""
    span = Span(-1.0, 1.0)
    ahead = np.where(known, (values - span.least) / (span.most - span.least) / 0.5 - 1, 0.0)
    with np.errstate(divide="ignore"):
        made = np.array([np.log1p(share * ahead).sum(axis=1) for share in SHARES])
    capital = np.logaddexp.reduce(made, axis=0) - math.log(len(SHARES))
    return np.asarray(capital >= -math.log(LEVEL))
