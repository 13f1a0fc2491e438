"""How often gates on a mean pass or fail wrongly where an adversary draws, and rightly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.adversaries import Codes, Family, Floats, families, steps
from benchmarks.simulated_differences import CONFIDENCE, SEED
from harness.core.scores import Estimate
from harness.gates.base.rules import TOUCH, Where
from harness.stats.bounded import Span, chance_above
from harness.stats.proportion import share

LEVEL = (1 - CONFIDENCE) / 2
AT_ONCE = 2_000
INF = float("inf")
QUERIES = (50, 200, 400)
Said = NDArray[np.bool_]
DIFFERENCES = Span(-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class GateCase:
    """The question of a gate: on which side of ``limit`` the mean lies."""

    rule: str
    limit: float
    passes: Where
    good: float
    """The mean where power is counted."""
    span: Span = DIFFERENCES

    @property
    def truths(self) -> tuple[float, ...]:
        """Means at which a PASS is wrong by nothing at all, the worst that there are."""
        return (-self.limit, self.limit) if self.passes == "within" else (self.limit,)

    def drawn(
        self, family: Family, rng: np.random.Generator, queries: int, trials: int, mean: float
    ) -> tuple[Floats, Codes | None] | None:
        """Draw values of this gate's span; families draw from -1 to 1."""
        least, most = self.span
        found = family.sample(rng, queries, trials, 2 * (mean - least) / (most - least) - 1)
        return found and (least + (found[0] + 1) * (most - least) / 2, found[1])


GATES = (
    GateCase("non_inferior", -0.02, "above", 0.0),
    GateCase("superior", 0.0, "above", 0.05),
    GateCase("equivalent", 0.05, "within", 0.0),
    GateCase("agreement_floor", 0.8, "above", 0.9, Span(0.0, 1.0)),
)


def clears(
    values: Floats, clusters: Codes | None, span: Span, above: float = -INF, below: float = INF
) -> Said:
    """Return whether the interval of each column is between the two."""
    said = np.ones(values.shape[1], dtype=bool)
    for turn, end in ((1, above), (-1, -below)):
        if end > -INF and said.any():
            least, most = sorted((turn * span.least, turn * span.most))
            p_values = chance_above(
                turn * values[:, said],
                end + TOUCH,
                span=Span(least, most),
                clusters=clusters,
            )
            said[said] = p_values < LEVEL
    return said


def passes(asked: GateCase, values: Floats, clusters: Codes | None) -> Said:
    """Say of each column whether the gate passes."""
    if asked.passes == "above":
        return clears(values, clusters, asked.span, above=asked.limit)
    return clears(values, clusters, asked.span, above=-asked.limit, below=asked.limit)


def fails(asked: GateCase, values: Floats, clusters: Codes | None) -> Said:
    """Return of each column whether the gate fails."""
    if asked.passes == "above":
        return clears(values, clusters, asked.span, below=asked.limit)
    outside = clears(values, clusters, asked.span, above=asked.limit)
    return outside | clears(values, clusters, asked.span, below=-asked.limit)


@dataclass(frozen=True, slots=True)
class Wrong:
    """How often a gate was wrong at its bound, and right within it."""

    family: str
    passed: Estimate
    """Share of PASS where the truth is the bound, with its exact interval."""
    failed: Estimate


def at_bound(asked: GateCase, queries: int, trials: int) -> Iterator[Wrong]:
    """Yield what came of each family that can have the gate's bound as its mean."""
    for number, family in enumerate(families()):
        for truth in asked.truths:
            rng = np.random.default_rng((SEED, number, queries))
            counts, seen = np.zeros(2, dtype=int), 0
            for size in _batches(trials):
                drawn = asked.drawn(family, rng, queries, size, truth)
                if drawn is not None:
                    counts += [passes(asked, *drawn).sum(), fails(asked, *drawn).sum()]
                    seen += size
            if seen:
                shares = (share(int(n), seen, confidence=CONFIDENCE) for n in counts)
                yield Wrong(family.name, *shares)


def power(asked: GateCase, queries: int, trials: int, moved: float) -> float | None:
    """Share of PASS where the mean is ``good`` and a share ``moved`` of the queries moves.

    Agreements are beta variables, the wider the more queries move. None where so few cannot have
    that mean.
    """
    rng = np.random.default_rng((SEED, queries))
    if asked.span.least == 0:
        shape = asked.good / moved, (1 - asked.good) / moved
        return float(passes(asked, rng.beta(*shape, (queries, trials)), None).mean())
    drawn = asked.drawn(Family("", partial(steps, moved=moved)), rng, queries, trials, asked.good)
    return None if drawn is None else float(passes(asked, *drawn).mean())


def _batches(trials: int) -> list[int]:
    return [min(AT_ONCE, trials - start) for start in range(0, trials, AT_ONCE)]
