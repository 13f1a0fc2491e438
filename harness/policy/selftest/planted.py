"""Trials in which the truth is known: labels swapped, and losses planted in several patterns.

Two arms whose labels are swapped at random, cluster by cluster, do not differ: what differences are
left is noise, of the very size that the comparison has (Fisher's sign-flip). On top of it a loss of
a known size is planted, as where an engine stops finding things. A loss for the control is a gain
for the candidate.
"""

from __future__ import annotations

import random
from collections import Counter
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Hit
from harness.core.errors import EvidenceError
from harness.core.run import Row, Run

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]
NEARLY_ALL = 0.999
EVEN = 0.5
PRONE = 10.0
"""Rare losses befall the best queries, which together could lose so many times what is lost."""
GROUP = 4
"""Queries, or clusters of them, of a planted cluster."""
BURST = 5
"""Queries of a burst."""
LIFT = 0.02
"""What all other queries gain where rare losses are planted under a bound of 0."""


class Pattern(StrEnum):
    """How a planted loss is spread over the queries."""

    SCATTERED = "total losses scattered over the queries, among the noise at hand"
    RARE = "rare total losses of the best queries, no other difference"
    CLUSTERED = f"total losses of whole clusters of {GROUP}, which the gate is told of"
    BURSTS = f"total losses in bursts of {BURST}, which nobody told the gate of"


ASSUMED = frozenset({Pattern.BURSTS})
"""Patterns that break what a gate says that it assumes: measured and shown, no fault of it."""


class Values(NamedTuple):
    """One measure of both arms, query by query."""

    control: Floats
    """Shape (queries,)."""
    candidate: Floats
    """Shape (queries,)."""
    clusters: Codes
    """Shape (queries,): codes from 0; queries of one code are swapped, lost and drawn together."""

    @property
    def level(self) -> float:
        """Mean of what a planted loss can take away: of either arm, as labels are swapped."""
        return float((self.control.mean() + self.candidate.mean()) / 2)

    @property
    def units(self) -> int:
        """Clusters, those of one query among them."""
        return int(self.clusters.max(initial=-1)) + 1


class Trials(NamedTuple):
    """Differences candidate - control whose mean is known, a column a trial."""

    differences: Floats
    """Shape (queries, trials)."""
    clusters: Codes | None
    """Shape (queries,): what the gate is told; None where that is what the comparison says."""


class Masks(NamedTuple):
    """Which queries are swapped and which lose in each trial; shape (queries, trials)."""

    swapped: Bools
    lost: Bools

    def applied(self, control: Floats, candidate: Floats, *, gain: bool) -> Floats:
        """Give the differences of the two, shape (queries, trials)."""
        first = np.where(self.swapped, candidate[:, None], control[:, None])
        second = np.where(self.swapped, control[:, None], candidate[:, None])
        (first if gain else second)[self.lost] = 0
        return second - first


def draw(
    pattern: Pattern, values: Values, truth: float, *, trials: int, seed: int
) -> Trials | None:
    """Draw trials whose true mean difference is ``truth``; None where so much cannot be lost.

    Nor can whole clusters be lost where all queries would be one cluster.

    Raises:
        EvidenceError: fewer than two independent queries, or no trial.
    """
    if trials < 1 or values.units < 2:  # noqa: PLR2004  one has no spread
        raise EvidenceError("a selftest needs two independent queries and one trial, or more")
    rng = np.random.default_rng((seed, list(Pattern).index(pattern)))
    if pattern is Pattern.RARE:
        return _rare(values, truth, trials, rng)
    if abs(truth) > NEARLY_ALL * values.level:
        return None
    share = abs(truth) / values.level if truth else 0.0
    told = None
    units = values.clusters
    if pattern is Pattern.CLUSTERED and values.units <= GROUP:
        return None
    if pattern is Pattern.CLUSTERED:
        units = told = (rng.permutation(values.units) // GROUP)[values.clusters]
    if pattern is Pattern.BURSTS:
        lost = in_bursts(len(units), share, trials, rng)
        masks = masked(units, 0.0, trials, rng)._replace(lost=lost)
    else:
        masks = masked(units, share, trials, rng)
    found = masks.applied(values.control, values.candidate, gain=truth > 0)
    return Trials(found, told)


def masked(units: Codes, share: float, trials: int, rng: np.random.Generator) -> Masks:
    """Swap each unit with even chance, and let it lose with the chance ``share``."""
    count = int(units.max()) + 1
    swapped = rng.random((count, trials), dtype=np.float32) < EVEN
    lost = rng.random((count, trials)) < share
    return Masks(swapped[units], lost[units])


def in_bursts(queries: int, share: float, trials: int, rng: np.random.Generator) -> Bools:
    """Let runs of queries lose together, in an order drawn anew; each loses with ``share``.

    Bursts of one length begin by chance, and may follow each other: shape (queries, trials).
    """
    begins = 1 - (1 - share) ** (1 / BURST)
    started = rng.random((queries + BURST - 1, trials)) < begins
    counts = np.cumsum(started, axis=0)
    within = counts[BURST - 1 :].copy()
    within[1:] -= counts[:-BURST]
    return np.asarray((within > 0)[rng.permutation(queries)])


def _rare(values: Values, truth: float, trials: int, rng: np.random.Generator) -> Trials | None:
    """Give every query one difference above ``truth``, and the best ones rarely a total loss.

    Below a limit for losses nothing else differs; above one for gains all others gain twice it.
    """
    base = 0.0 if truth < 0 else max(2 * truth, LIFT)
    taken = np.bincount(values.clusters, weights=values.control + base)
    wanted = len(values.control) * (base - truth)
    order = np.argsort(-taken / np.bincount(values.clusters), kind="stable")
    could = np.cumsum(taken[order])
    if could[-1] * NEARLY_ALL < wanted:
        return None
    prone = order[: int(np.searchsorted(could, PRONE * wanted)) + 1]
    share = wanted / float(taken[prone].sum())
    lost = np.zeros((values.units, trials), dtype=np.bool_)
    lost[prone] = rng.random((len(prone), trials)) < share
    found = np.full((len(values.control), trials), base)
    by_query = lost[values.clusters]
    found[by_query] = np.broadcast_to(-values.control[:, None], found.shape)[by_query]
    return Trials(found, None)


def shuffled(run: Run, *, seed: int) -> Run:
    """Give each query the hits of ``run`` for another one."""
    rows = list(run.rows())
    order = random.Random(seed).sample(range(len(rows)), len(rows))
    given = dict(zip(order, (*order[1:], *order[:1]), strict=True))
    return Run.of(
        "shuffled",
        (
            rows[given[at]]._replace(query_id=row.query_id, duplicates=0)
            for at, row in enumerate(rows)
        ),
    )


def popular(run: Run) -> Run:
    """Give every query the most frequent hits of ``run``; equal counts go by id."""
    shown = Counter(run.vocabulary[code] for code in run.docs)
    longest = int(run.lengths.max(initial=0))
    best = sorted(shown, key=lambda doc_id: (-shown[doc_id], doc_id))[:longest]
    hits = tuple(Hit(doc_id, 1 / rank, 1 / rank) for rank, doc_id in enumerate(best, start=1))
    return Run.of(
        "popular", (Row(row.query_id, row.status, hits, row.served_by) for row in run.rows())
    )
