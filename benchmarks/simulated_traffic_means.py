"""Simulated logs: how often the interval of a traffic mean contains the mean of the whole log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.core.records import Drawn
from harness.stats.inference import Inference
from harness.stats.stratified import traffic_mean_each

QUERIES = 3_000
NOTHING = 0.3
"""Share of the queries that find nothing."""
RESAMPLES = 500
CONFIDENCE = 0.95
SEED = 20_261_124


class Covered(NamedTuple):
    """Shares of the samples."""

    traffic: float
    """Whose interval of the traffic mean contains it."""
    plain_bias: float
    """Mean of the plain means, minus the mean of the traffic."""


def traffic_means(size: int, trials: int, *, gap: float = 0.3) -> Covered:
    """Sample logs whose frequent queries are better served than rare ones, by ``gap``."""
    rng = np.random.default_rng((SEED, size))
    count = np.ceil(rng.pareto(1.1, QUERIES) + 1e-9).astype(np.int64)
    count = np.sort(np.maximum(count, 1))[::-1]
    passed = np.cumsum(count) - count
    code = np.minimum(2, 3 * passed // count.sum())
    values = np.clip(
        rng.beta(1, 1, QUERIES) * (rng.random(QUERIES) > NOTHING) + gap * (code == 0) - 0.1, 0, 1
    )
    true = float(values @ count / count.sum())
    sizes = np.array([(code == at).sum() for at in range(3)])
    taken = np.minimum(sizes, [size // 3] * 3)
    held, means = 0, []
    for trial in range(trials):
        rows = np.concatenate([
            rng.choice(np.flatnonzero(code == at), taken[at], replace=False) for at in range(3)
        ])
        drawn = [
            Drawn(str(code[row]), float(taken[code[row]] / sizes[code[row]]), int(count[row]))
            for row in rows
        ]
        inference = Inference(confidence=CONFIDENCE, resamples=RESAMPLES, seed=trial)
        (found,) = traffic_mean_each(values[rows].reshape(-1, 1), drawn, inference=inference)
        if found is not None:
            held += found.low <= true <= found.high
        means.append(values[rows].mean())
    return Covered(held / trials, float(np.mean(means)) - true)
