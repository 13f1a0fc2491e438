"""Simulated judges: how often rare losses pass that a machine does not see, and what widths are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.stats.assisted import DIFFERENCES, assisted
from harness.stats.bounded import Span, bounded_each
from harness.stats.calibration import UniqueHits
from harness.stats.inference import Inference

QUERIES, K = 400, 10
RESAMPLES = 500
CONFIDENCE = 0.95
LEVEL = (1 - CONFIDENCE) / 2
MARGIN = 0.02
SEED = 20_261_124
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Judged(NamedTuple):
    """Shares of the trials in which a candidate that loses exactly the margin is promoted."""

    people: float
    """By the judgements of people alone, which decide."""
    machine: float
    """By the interval that a machine makes narrower, which describes."""


def judged(people: int, trials: int) -> Judged:
    """Judge candidates that lose all documents of few queries, where the machine sees nothing.

    Of the other queries one document on each side differs, relevant by chance.
    """
    rng = np.random.default_rng((SEED, people))
    shown = [_rare_losses(rng) for _ in range(trials)]
    human = np.array([
        np.bincount(one.query, one.weight * one.human, QUERIES)[:people] for one in shown
    ])
    ends = bounded_each(human.T, span=DIFFERENCES, level=LEVEL, clusters=None)
    known = np.arange(QUERIES) < people
    both = [_described(one, known, trial) for trial, one in enumerate(shown)]
    return Judged(float((ends.low > -MARGIN).mean()), float(np.mean(both)))


def _described(shown: UniqueHits, known: Flags, trial: int) -> bool:
    inference = Inference(confidence=CONFIDENCE, resamples=RESAMPLES, seed=trial)
    try:
        found = assisted(shown, known, clusters=None, inference=inference)
    except EvidenceError:
        return False
    return found.assisted.low > -MARGIN


def _rare_losses(rng: np.random.Generator) -> UniqueHits:
    lost = rng.random(QUERIES) < MARGIN
    relevant = rng.random((QUERIES, 2)) < 0.3  # noqa: PLR2004  of the documents that differ
    weight = np.where(lost[:, None], [0.0, -1.0], [1 / K, -1 / K])
    human = np.where(lost[:, None], [0.0, 1.0], relevant)
    machine = (relevant & ~lost[:, None]).astype(np.int64)
    query = np.arange(QUERIES).repeat(2)
    return UniqueHits(query, weight.ravel(), human.ravel(), machine.ravel())


class Widths(NamedTuple):
    """Mean widths of intervals that are valid for any sample size."""

    people: float
    """Of people alone."""
    machine: float
    """Of the machine's difference, corrected by people's, each part at half the level."""


def widths(people: int, queries: int, errs: float, trials: int = 100) -> Widths:
    """Compare widths where a machine judged all queries, and errs in this share of documents."""
    rng = np.random.default_rng((SEED, people, queries))
    shape = (queries, trials)
    unique, base = rng.integers(2, K + 1, shape), rng.beta(1.2, 2.0, shape)
    counts = [
        rng.binomial(unique, np.clip(base + rng.normal(0, 0.15, shape), 0.02, 0.98))
        for _ in range(2)
    ]
    said = [rng.binomial(one, 1 - errs) + rng.binomial(unique - one, errs) for one in counts]
    human, machine = ((one[1] - one[0]) / K for one in (counts, said))
    alone = bounded_each(human[:people], span=DIFFERENCES, level=LEVEL, clusters=None)
    parts = (
        bounded_each(values, span=span, level=LEVEL / 2, clusters=None)
        for values, span in (
            ((human - machine)[:people], Span(-2.0, 2.0)),
            (machine[people:], DIFFERENCES),
        )
    )
    corrected = sum(float((one.high - one.low).mean()) for one in parts)
    return Widths(float((alone.high - alone.low).mean()), corrected)
