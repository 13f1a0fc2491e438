"""How often intervals of a race hold the truth, where processes differ by a known spread."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.simulated_differences import CONFIDENCE, SEED
from harness.core.scores import Estimate
from harness.stats.inference import Inference
from harness.stats.times.processes import percentile, ratio

HARD, SHARED, NOISE = 0.6, 0.77, 0.1
"""Spread of logarithms over queries, how much of it two arms share, and from call to call."""
RESAMPLES = 400
PROCESSES = 4
Times = NDArray[np.int64]
Interval = Callable[[Times, Times, float, int], Estimate]


def covered(
    kind: str, percent: float, *, queries: int, processes: int, apart: float, trials: int
) -> tuple[float, float]:
    """Share of intervals that lie below the truth, and of those that lie above it.

    ``kind`` is ``ratio`` (of two arms that are alike), ``percentile`` (of one arm), or
    ``bootstrap`` (the ratio, by resampling processes and queries). Logarithms of times
    are normal; those of processes have the spread ``apart``, in each arm by itself.
    """
    own = math.sqrt(1 - SHARED**2)
    spread = math.sqrt(HARD**2 + NOISE**2 + apart**2)
    truth = 1e6 * math.exp(spread * float(ndtri(percent / 100))) if kind == "percentile" else 1.0
    rng = np.random.default_rng((SEED, queries, processes))
    below = above = 0
    for trial in range(trials):
        shared, *each = rng.normal(size=(3, queries))
        arms = [
            1e6
            * np.exp(
                HARD * (SHARED * shared + own * mine)
                + apart * rng.normal(size=(processes, 1))
                + NOISE * rng.normal(size=(processes, queries))
            )
            for mine in each
        ]
        found = KINDS[kind](arms[0].astype(np.int64), arms[1].astype(np.int64), percent, trial)
        below += found.high < truth
        above += found.low > truth
    return below / trials, above / trials


def of_one_intent(each: int, percent: float, *, one_each: bool, texts: int, trials: int) -> float:
    """Share of the ratio's intervals that lie below the truth, where so many texts are alike.

    A set of ``texts`` has clusters of ``each``; how hard a text is for an arm is the same all over
    its cluster. All of them are timed, or one of each cluster (``one_each``), in four processes.
    """
    own, clusters = math.sqrt(1 - SHARED**2), texts // each
    rng = np.random.default_rng((SEED, each, clusters))
    below = 0
    for trial in range(trials):
        shared, *mine = rng.normal(size=(3, clusters))
        hard = [np.repeat(SHARED * shared + own * one, 1 if one_each else each) for one in mine]
        arms = [
            1e6 * np.exp(HARD * of + NOISE * rng.normal(size=(PROCESSES, len(of)))) for of in hard
        ]
        estimate = _ratio(arms[0].astype(np.int64), arms[1].astype(np.int64), percent, trial)
        below += estimate.high < 1
    return below / trials


def _ratio(candidate: Times, control: Times, percent: float, seed: int) -> Estimate:
    drawn = Inference(confidence=CONFIDENCE, resamples=RESAMPLES, seed=seed)
    return ratio(candidate, control, percent, inference=drawn)


def _percentile(candidate: Times, _: Times, percent: float, __: int) -> Estimate:
    return percentile(candidate, percent, confidence=CONFIDENCE)


def _bootstrap(candidate: Times, control: Times, percent: float, seed: int) -> Estimate:
    rng = np.random.default_rng((SEED, seed))
    processes, queries = candidate.shape
    drawn = np.empty(RESAMPLES)
    for at in range(RESAMPLES):
        rows = rng.integers(processes, size=(processes, 1)), rng.integers(queries, size=queries)
        drawn[at] = np.percentile(candidate[rows], percent) / np.percentile(control[rows], percent)
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    value = float(np.percentile(candidate, percent) / np.percentile(control, percent))
    return Estimate(value, float(low), float(high), queries)


KINDS: dict[str, Interval] = {
    "ratio": _ratio,
    "percentile": _percentile,
    "bootstrap": _bootstrap,
}
