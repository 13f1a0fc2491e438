"""How surprising a mean difference would be, were the two arms exchangeable."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.stats.bootstrap import by_cluster

EXACT_UP_TO = 20
SIGNS_AT_ONCE = 1 << 20
ROUNDING = 1e-12

Alternative = Literal["greater", "less", "two-sided"]


def sign_flip(
    differences: NDArray[np.float64],
    *,
    shift: float,
    alternative: Alternative,
    resamples: int,
    seed: int,
    clusters: NDArray[np.int64] | None,
) -> float:
    """p-value of the paired sign-flip randomization test of "the mean is ``shift``".

    Fisher, "The Design of Experiments" (1935), section 21; for retrieval see Smucker, Allan and
    Carterette, CIKM 2007. ``differences`` has shape (queries,); ``shift`` is taken off each, and
    the sum is compared with the sums under every choice of signs. Queries of one code in
    ``clusters`` flip together.

    What is 0 after the shift (a query, or the sum of a cluster) is dropped: it adds 0 to the sum
    whatever its sign, so no p-value changes. Up to 20 that remain are enumerated; more are drawn
    ``resamples`` times, with one added to both counts (Phipson and Smyth, 2010), so that no
    p-value is 0. Nothing left: p is 1.

    Raises:
        EvidenceError: there is no difference at all, or one is not finite.
    """
    if not len(differences) or not np.isfinite(differences).all():
        raise EvidenceError("a randomization test needs differences, all of them finite")
    sums, _ = by_cluster(differences - shift, clusters)
    tie = ROUNDING * float((np.abs(differences) + abs(shift)).sum())
    sums = sums[np.abs(sums) > tie]
    observed = float(sums.sum())
    if len(sums) <= EXACT_UP_TO:
        every = _every_sum(sums)
        return _beyond(every, observed, tie, alternative) / len(every)
    rng = np.random.default_rng(seed)
    block = max(1, SIGNS_AT_ONCE // len(sums))
    count = 0
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        plus = rng.integers(0, 2, size=(rows, len(sums)), dtype=np.int8)
        count += _beyond(2 * (plus @ sums) - observed, observed, tie, alternative)
    return (count + 1) / (resamples + 1)


def _every_sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum ``values`` under each of the 2**n choices of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _beyond(
    sums: NDArray[np.float64], observed: float, tie: float, alternative: Alternative
) -> int:
    """How many ``sums`` are at least as extreme as ``observed``."""
    if alternative == "greater":
        return int((sums >= observed - tie).sum())
    if alternative == "less":
        return int((sums <= observed + tie).sum())
    return int((np.abs(sums) >= abs(observed) - tie).sum())
