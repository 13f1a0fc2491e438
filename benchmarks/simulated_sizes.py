"""Clusters of queries that lose together: groups of paraphrases, and rare large clusters.

A sample is drawn by whole intents, as people write query sets. ``rare_large`` draws their sizes
too: most samples do not show a large one, and so cannot show that the large ones lose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.adversaries import Codes, Floats
from benchmarks.simulated_differences import CONFIDENCE, SEED
from harness.gates.base.rules import TOUCH
from harness.stats import bounded

LEVEL = (1 - CONFIDENCE) / 2
DIFFERENCES = bounded.Span(-1.0, 1.0)
QUERIES = (30, 75, 200, 1_000)
EACH = (2, 4, 8)
"""Paraphrases of one intent."""
SHARES = (0.002, 0.005, 0.01, 0.02, 0.04, 0.1)
"""Of the queries, that the large clusters have."""
MEAN = -0.02


class Batch(NamedTuple):
    """Samples whose clusters have the same sizes."""

    values: Floats
    """Differences by query and trial, shape (queries, trials)."""
    codes: Codes
    """Cluster of each query, shape (queries,)."""


def paraphrases(
    rng: np.random.Generator, queries: int, trials: int, *, each: int, mean: float
) -> Batch:
    """Draw intents of ``each`` queries, of which one in so many loses everything."""
    units = max(2, queries // each)
    lost = rng.random((units, trials)) < -mean
    codes = np.repeat(np.arange(units), each)
    return Batch(np.where(lost, -1.0, 0.0)[codes], codes)


def rare_large(
    rng: np.random.Generator,
    queries: int,
    trials: int,
    *,
    size: int,
    mean: float,
    losing: float = 1.0,
) -> Iterator[Batch]:
    """Draw queries that stand alone and differ by nothing, and a few clusters of ``size``.

    A share ``losing`` of these loses everything, so often that the mean over queries is ``mean``.
    A sample ends with the cluster that fills it.
    """
    wanted = -mean / losing
    large = rng.random((trials, queries)) < wanted / (size * (1 - wanted) + wanted)
    ends = np.argmax(np.cumsum(np.where(large, size, 1), axis=1) >= queries, axis=1)
    seen = np.array([row[: end + 1].sum() for row, end in zip(large, ends, strict=True)])
    for (units, clusters), count in zip(
        *np.unique(np.column_stack([ends + 1, seen]), axis=0, return_counts=True), strict=True
    ):
        sizes = np.where(np.arange(units) < clusters, size, 1)
        lost = (rng.random((units, count)) < losing) & (np.arange(units) < clusters)[:, None]
        codes = np.repeat(np.arange(units), sizes)
        yield Batch(np.where(lost, -1.0, 0.0)[codes], codes)


def passing(batches: Iterator[Batch] | list[Batch], mean: float, *, largest: float) -> float:
    """Share of the samples whose low end lies above ``mean``."""
    passed = trials = 0
    for values, codes in batches:
        found = bounded.chance_above(
            values, mean + TOUCH, span=DIFFERENCES, clusters=codes, largest=largest
        )
        passed, trials = passed + int((found < LEVEL).sum()), trials + values.shape[1]
    return passed / trials


def grouped(queries: int, each: int, trials: int, *, known: bool) -> float:
    """Chance of a false PASS over paraphrases, their groups known or each query alone."""
    rng = np.random.default_rng((SEED, queries, each))
    values, codes = paraphrases(rng, queries, trials, each=each, mean=MEAN)
    return passing([Batch(values, codes if known else np.arange(len(codes)))], MEAN, largest=0.0)


def sized(queries: int, share: float, trials: int, *, largest: float, losing: float = 1.0) -> float:
    """Chance of a false PASS where large clusters have ``share`` of the queries each."""
    size = max(1, int(share * queries + TOUCH))
    rng = np.random.default_rng((SEED, queries, size))
    batches = rare_large(rng, queries, trials, size=size, mean=MEAN, losing=losing)
    return passing(batches, MEAN, largest=largest)


def room(queries: int, largest: float) -> float:
    """Room left where nothing is lost and no query is like another."""
    ends = bounded.bounded_each(
        np.zeros((queries, 1)), span=DIFFERENCES, level=LEVEL, clusters=None, largest=largest
    )
    return -float(ends.low[0])
