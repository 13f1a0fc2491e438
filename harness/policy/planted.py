"""What a gate says where the truth is known: labels swapped, and losses planted.

Two arms whose labels are swapped at random, query by query, do not differ: what differences are
left is noise, of the very size that the comparison has (Fisher's sign-flip, as in
``harness.stats.randomization``). On top of it a loss of a known size is planted: some queries,
drawn at random, lose all that they had, as where an engine stops finding things. How often the
gate is then wrong can be counted, with its own interval and its own verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules, above
from harness.stats.bootstrap import bca_each
from harness.stats.proportion import share

Floats = NDArray[np.float64]
CELLS_AT_ONCE = 1 << 22
NEARLY_ALL = 0.999
NOT_SEEN, SEEN, HALVINGS = 0.5, 1.5, 4
"""Where the smallest loss is looked for, by what a normal approximation expects."""


class Values(NamedTuple):
    """One measure of both arms, query by query."""

    control: Floats
    """Shape (queries,)."""
    candidate: Floats
    """Shape (queries,)."""
    clusters: NDArray[np.int64]
    """Shape (queries,): codes from 0; queries of one code are swapped, lost and drawn together."""

    @property
    def level(self) -> float:
        """Mean of what a planted loss can take away: of either arm, as labels are swapped."""
        return float((self.control.mean() + self.candidate.mean()) / 2)


class Counted(NamedTuple):
    """How often a gate that asks for a mean difference above its limit was wrong."""

    false_promote: Estimate | None
    """Share of PASS where the true difference is the limit; None where that cannot be planted."""
    false_hold: Estimate | None
    """Share without PASS where the truth is better than the limit by the limit's own size: no
    difference for a margin, twice the gain for a gain; None for a limit of 0."""
    smallest_loss: float | None
    """Smallest loss that is surely seen as one (interval below 0) in the share ``power`` of the
    trials; None where the arms do not score high enough to lose as much."""
    seen: Estimate | None
    """Share of trials in which a loss of that size was seen."""


def count(values: Values, *, limit: float, rules: Rules, trials: int) -> Counted:
    """Try the gate "the mean difference lies above ``limit``" ``trials`` times a truth.

    Seeded by ``rules``; ``rules.resamples`` draws a trial. Rates have exact intervals.

    Raises:
        EvidenceError: fewer than two independent queries, or no trial.
    """
    if trials < 1 or values.clusters.max(initial=0) < 1:
        raise EvidenceError("a selftest needs two independent queries and one trial, or more")

    def rate(truth: float, bound: float, wanted: Verdict) -> Estimate | None:
        if abs(truth) > NEARLY_ALL * values.level:
            return None
        said = [above(found, bound) for found in _tried(values, truth, rules, trials)]
        return share(said.count(wanted), trials, confidence=rules.confidence)

    promoted = rate(limit + abs(limit), limit, Verdict.PASS) if limit else None
    loss, seen = _smallest(
        _expected_loss(values, rules), rules.power, lambda lost: rate(-lost, 0.0, Verdict.FAIL)
    )
    return Counted(
        false_promote=rate(limit, limit, Verdict.PASS),
        false_hold=promoted and _complement(promoted),
        smallest_loss=loss,
        seen=seen,
    )


def _smallest(
    expected: float, power: float, seen: Callable[[float], Estimate | None]
) -> tuple[float | None, Estimate | None]:
    """Halve the way to the smallest loss that is seen often enough; the draws are the same ones."""
    low, high = NOT_SEEN * expected, SEEN * expected
    best = seen(high)
    if best is None or best.value < power:
        return None, None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = seen(middle)
        if tried is not None and tried.value >= power:
            high, best = middle, tried
        else:
            low = middle
    return high, best


def _complement(found: Estimate) -> Estimate:
    return Estimate(1 - found.value, 1 - found.high, 1 - found.low, found.n)


def _expected_loss(values: Values, rules: Rules) -> float:
    """Solve loss = z * deviation(loss) / sqrt(queries), as in ``harness.stats.power``.

    A planted loss has a spread of its own: a share p = loss / level of the queries loses x, so the
    variance is that of the differences plus p E[x^2] - loss^2.
    """
    squares = float((values.control**2).mean() + (values.candidate**2).mean()) / 2
    difference = values.candidate - values.control
    sums = np.bincount(values.clusters, weights=difference)
    variance = float((sums**2).sum()) / len(difference)
    together = len(difference) / len(sums)
    z = float(ndtri(1 - (1 - rules.confidence) / 2) + ndtri(rules.power))
    a, b = len(difference) / z**2 + 1, together * squares / (values.level or 1)
    return (b + math.sqrt(b * b + 4 * a * variance)) / (2 * a)


def _tried(values: Values, truth: float, rules: Rules, trials: int) -> Iterator[Estimate]:
    """Yield the interval of each trial where the true mean difference is ``truth``."""
    rng = np.random.default_rng(rules.seed)
    _, code = np.unique(values.clusters, return_inverse=True)
    units = int(code.max()) + 1
    block = max(1, CELLS_AT_ONCE // len(code))
    for start in range(0, trials, block):
        size = min(block, trials - start)
        swapped = rng.random((units, size))[code] < 0.5  # noqa: PLR2004  heads or tails
        first = np.where(swapped, values.candidate[:, None], values.control[:, None])
        second = np.where(swapped, values.control[:, None], values.candidate[:, None])
        lost = rng.random((units, size))[code] < abs(truth) / (values.level or 1)
        (second if truth < 0 else first)[lost] = 0
        yield from bca_each(
            second - first,
            confidence=rules.confidence,
            resamples=rules.resamples,
            seed=rules.seed + start,
            clusters=None if units == len(code) else code,
            threads=rules.threads,
        )
