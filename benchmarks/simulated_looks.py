"""How often a gate on a mean difference is wrong at any look, while judged queries are added."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_differences import CONFIDENCE, RESAMPLES, SEED, Floats, losing
from harness.core.scores import Estimate
from harness.gates.base.looks import Looks
from harness.stats.bounded import Span
from harness.stats.inference import Inference
from harness.stats.interval import interval_each
from harness.stats.sequential.evalues import evalues_each

MARGIN = 0.02
LOOKS = tuple(range(100, 501, 50))
"""Queries at each of nine looks."""
SPAN = Span(-1.0, 1.0)


class Looked(NamedTuple):
    """Shares of query sets that grow."""

    ever: float
    """That pass at any of the looks."""
    last: float
    """That pass at the last one."""


def growing(looks: Looks, truth: float, trials: int, *, again: float = 0.0) -> Looked:
    """Judge query sets that grow by the interval of a gate, at each of ``LOOKS``.

    The mean difference is ``truth``, the margin .02. A share ``again`` of the queries are near
    duplicates of an earlier one, and are known for it.
    """
    rng = np.random.default_rng(SEED)
    first = needs(rng, LOOKS[-1], again)
    values = losing(-truth).draw(rng, (LOOKS[-1], trials))[first]
    passed = np.zeros((len(LOOKS), trials), dtype=bool)
    for at, size in enumerate(LOOKS):
        estimates = intervals(looks, values[:size], first[:size] if again else None)
        passed[at] = [one.low > -MARGIN for one in estimates]
    return Looked(float(passed.any(axis=0).mean()), float(passed[-1].mean()))


def needs(rng: np.random.Generator, queries: int, again: float) -> NDArray[np.int64]:
    """Give the first query of each query's need, shape (queries,)."""
    first = np.arange(queries)
    for at in np.flatnonzero(rng.random(queries) < again):
        first[at] = first[rng.integers(at)] if at else 0
    return first


def intervals(
    looks: Looks, values: Floats, clusters: NDArray[np.int64] | None
) -> tuple[Estimate, ...]:
    """Give the interval by which a gate with ``looks`` decides, column by column."""
    if looks == "anytime":
        return evalues_each(values, span=SPAN, confidence=CONFIDENCE, clusters=clusters)
    return interval_each(
        values,
        span=SPAN,
        inference=Inference(confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED),
        clusters=clusters,
    )
