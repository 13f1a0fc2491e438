"""Simulated sessions on mixed lists, and on an A/B test of the same traffic."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.shadow.clicks.team_draft import Mixed, credits_of, preference_of, team_draft
from harness.stats.sequential.anytime import ever_beyond, sign_test

SEED = 20_261_124
DOCUMENTS, SHOWN = 30, 10
RELEVANT = 0.15
NOISE = 1.0
"""Of the scores of the control; that of the candidate is less by its gain."""
CLICKED = 0.9, 0.12
"""Probability of a click on a relevant, and on another document, of the most eager user."""
CONFIDENCE = 0.95
NORMAL = 1.96
Floats = NDArray[np.float64]


class Users(NamedTuple):
    """How users behave."""

    alike: bool = False
    """All click as readily, and every query has as many relevant documents."""
    by_rank_alone: bool = False
    """They click whatever stands where they look."""


VARIED = Users()


class Clicked(NamedTuple):
    """Shares of the trials in which the candidate, and in which the control, was called better."""

    mixed: tuple[float, float]
    """By the sign test after all sessions."""
    anytime: tuple[float, float]
    """By the sequence, at any session."""
    split: tuple[float, float]
    """By an A/B test of as many sessions: clicks a session, Welch's z."""


def clicked(gain: float, sessions: int, trials: int, users: Users = VARIED) -> Clicked:
    """Simulate trials in which the scores of the candidate have so much less noise."""
    rng = np.random.default_rng((SEED, sessions, round(1000 * (1 + gain)), *users))
    counts = np.zeros((3, 2))
    for trial in range(trials):
        signs, clicks = _traffic(rng, trial, gain, sessions, users)
        wins, losses = int((signs > 0).sum()), int((signs < 0).sum())
        called = sign_test(wins, losses) < 1 - CONFIDENCE
        counts[0] += called and wins > losses, called and losses > wins
        counts[1] += [
            ever_beyond(
                signs.astype(np.float64), bound=0.0, above=above, confidence=CONFIDENCE,
                least=-1.0, most=1.0,
            )
            for above in (True, False)
        ]  # fmt: skip
        z = _welch(clicks[1::2, 1], clicks[::2, 0])
        counts[2] += z > NORMAL, z < -NORMAL
    mixed, anytime, split = ((float(better), float(worse)) for better, worse in counts / trials)
    return Clicked(mixed, anytime, split)


def _traffic(
    rng: np.random.Generator, trial: int, gain: float, sessions: int, users: Users
) -> tuple[NDArray[np.int64], Floats]:
    """Draw sessions: whom each prefers, and its clicks had it seen the one or the other arm."""
    share, eager = rng.beta(1.0, 1 / RELEVANT - 1, (sessions, 1)), rng.random((sessions, 1))
    if users.alike:
        share, eager = np.full((sessions, 1), RELEVANT), np.full((sessions, 1), 0.5)
    relevant = rng.random((sessions, DOCUMENTS)) < share
    scores = [
        relevant + rng.normal(0, noise, (sessions, DOCUMENTS)) for noise in (NOISE, NOISE - gain)
    ]
    rankings = [np.argsort(-one, axis=1)[:, :SHOWN] for one in scores]
    looks = rng.random((sessions, SHOWN)) < 1 / np.arange(1, SHOWN + 1) ** 0.7
    likely = (
        np.where(relevant, *CLICKED) if not users.by_rank_alone else np.full((1, 1), CLICKED[0])
    )
    will = rng.random((sessions, DOCUMENTS)) < likely * eager
    signs = np.zeros(sessions, dtype=np.int64)
    names = [f"{at}" for at in range(DOCUMENTS)]
    for at in range(sessions):
        lists = [[names[document] for document in ranking[at]] for ranking in rankings]
        mixed: Mixed = team_draft(lists, SHOWN, Random(f"{trial} {at}"))
        on = {
            document
            for rank, document in enumerate(mixed.documents)
            if looks[at, rank] and will[at, int(document)]
        }
        signs[at] = preference_of([credits_of(mixed, on, 2)])  # type: ignore[list-item]
    clicks = [(looks & np.take_along_axis(will, one, axis=1)).sum(axis=1) for one in rankings]
    return signs, np.stack(clicks, axis=1).astype(np.float64)


def _welch(candidate: Floats, control: Floats) -> float:
    apart = candidate.mean() - control.mean()
    error = np.sqrt(candidate.var(ddof=1) / len(candidate) + control.var(ddof=1) / len(control))
    return float(apart / error) if error else 0.0
