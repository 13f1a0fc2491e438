"""How large the cluster that nobody saw may be taken to be, where clusters differ in size."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import numpy as np

from benchmarks.adversaries import Floats
from benchmarks.simulated_differences import CONFIDENCE, SEED
from harness.gates.base.rules import TOUCH
from harness.stats import bounded

LEVEL = (1 - CONFIDENCE) / 2
DIFFERENCES = bounded.Span(-1.0, 1.0)
SIZES = {
    "50 clusters of 4": (4,) * 50,
    "100 alone, 25 clusters of 4": (1,) * 100 + (4,) * 25,
    "150 alone, 5 clusters of 10": (1,) * 150 + (10,) * 5,
    "180 alone, 1 cluster of 20": (1,) * 180 + (20,),
}
"""Of 200 queries."""
UNSEEN: dict[str, Callable[[Floats, float], float]] = {
    "the mean": lambda sizes, _: float(sizes.mean()),
    "the four largest": bounded.unseen_size,
    "the largest": lambda sizes, _: float(sizes.max()),
}
HIT = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97)
"""Chances of one of the largest clusters to lose everything; no other query loses anything."""


def sized(sizes: tuple[int, ...], rule: str, trials: int) -> tuple[float, float]:
    """Give the worst chance of a false low end, and the room left where nothing is lost."""
    largest = np.array(sizes) == max(sizes)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    with mock.patch.object(bounded, "unseen_size", UNSEEN[rule]):
        wrong = []
        for hit in HIT:
            rng = np.random.default_rng(SEED)
            lost = largest[:, None] & (rng.random((len(sizes), trials)) < hit)
            mean = -hit * largest @ np.array(sizes) / sum(sizes)
            p_values = bounded.chance_above(
                np.where(lost, -1.0, 0.0)[codes],
                float(mean) + TOUCH,
                span=DIFFERENCES,
                level=LEVEL,
                clusters=codes,
            )
            wrong.append(float((p_values < LEVEL).mean()))
        nothing = bounded.bounded_each(
            np.zeros((len(codes), 1)), span=DIFFERENCES, level=LEVEL, clusters=codes
        )
    return max(wrong), -float(nothing.low[0])
