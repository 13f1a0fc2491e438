"""Simulated logs: how often the interval of a traffic mean contains the mean of the whole log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.records import Drawn
from harness.stats.bounded import Span
from harness.stats.inference import Inference
from harness.stats.stratified import traffic_mean_each

QUERIES = 3_000
NOTHING = 0.3
"""Share of the queries that find nothing."""
STEPS = (0.37, 0.5, 0.63, 1.0)
"""By which a query's nDCG@10 moves, in size."""
LOST = 0.6
"""Share of the queries that move which get worse."""
INFERENCE = Inference(confidence=0.95, resamples=1, seed=0)
SEED = 20_261_124
Floats = NDArray[np.float64]


class Covered(NamedTuple):
    """Shares of the samples, and means over them."""

    traffic: float
    """Whose interval of the traffic mean contains it."""
    width: float
    plain_bias: float
    """Mean of the plain means, minus the mean of the traffic."""


def traffic_means(
    size: int, trials: int, *, gap: float = 0.3, moved: float | None = None
) -> Covered:
    """Sample logs whose frequent queries are better served than rare ones, by ``gap``.

    With ``moved``, values are differences of two engines that are alike in all but this share of
    the queries.
    """
    rng = np.random.default_rng((SEED, size))
    count = np.ceil(rng.pareto(1.1, QUERIES) + 1e-9).astype(np.int64)
    count = np.sort(np.maximum(count, 1))[::-1]
    passed = np.cumsum(count) - count
    code = np.minimum(2, 3 * passed // count.sum())
    if moved is None:
        values, span = _served(rng, gap * (code == 0)), Span(0.0, 1.0)
    else:
        values, span = _moved(rng, moved), Span(-1.0, 1.0)
    true = float(values @ count / count.sum())
    sizes = np.array([(code == at).sum() for at in range(3)])
    taken = np.minimum(sizes, [size // 3] * 3)
    held, means, widths = 0, [], []
    for _ in range(trials):
        rows = np.concatenate([
            rng.choice(np.flatnonzero(code == at), taken[at], replace=False) for at in range(3)
        ])
        drawn = [
            Drawn(str(code[row]), float(taken[code[row]] / sizes[code[row]]), int(count[row]))
            for row in rows
        ]
        column = values[rows].reshape(-1, 1)
        (found,) = traffic_mean_each(column, drawn, spans=[span], inference=INFERENCE)
        if found is not None:
            held += found.estimate.low <= true <= found.estimate.high
            widths.append(found.estimate.high - found.estimate.low)
        means.append(values[rows].mean())
    return Covered(held / trials, float(np.mean(widths)), float(np.mean(means)) - true)


def _served(rng: np.random.Generator, better: Floats) -> Floats:
    found = rng.beta(1, 1, QUERIES) * (rng.random(QUERIES) > NOTHING)
    return np.clip(found + better - 0.1, 0, 1)


def _moved(rng: np.random.Generator, share: float) -> Floats:
    steps = rng.choice(STEPS, QUERIES) * np.where(rng.random(QUERIES) < LOST, -1, 1)
    return np.where(rng.random(QUERIES) < share, steps, 0.0)
