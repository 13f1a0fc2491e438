"""Values between -1 and 1 whose mean is known, drawn so that a sample hides as much as it can.

A family gives, for a mean, samples of independent queries or of labelled clusters of them. It gives
None for a mean that it cannot have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_differences import OFTEN, STEPS

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Draw = Callable[[np.random.Generator, tuple[int, int], float], Floats | None]
NOISY, NOISE = 0.1, 0.3
"""Share of the queries that move without a loss, and how far."""
ALIKE, UNLIKE = 0.1, 0.4
"""Share of the queries that move between two engines that are alike, and two that are not."""
LONGEST = 5.0


@dataclass(frozen=True, slots=True)
class Family:
    """One way to hide a mean."""

    name: str
    draw: Draw
    """Gives values by unit and trial, shape (units, trials)."""
    size: int = 1
    """Queries of a cluster, which have one value."""

    def sample(
        self, rng: np.random.Generator, queries: int, trials: int, mean: float
    ) -> tuple[Floats, Codes | None] | None:
        """Draw so many queries, or as many whole clusters as fit; shape (queries, trials)."""
        units = max(2, queries // self.size)
        values = self.draw(rng, (units, trials), mean)
        if values is None:
            return None
        if self.size == 1:
            return values, None
        return np.repeat(values, self.size, axis=0), np.repeat(np.arange(units), self.size)


def rare(
    rng: np.random.Generator, shape: tuple[int, int], mean: float, *, lost: float
) -> Floats | None:
    """Few lose everything, and all others have one value."""
    rest = (mean + lost) / (1 - lost)
    return None if rest > 1 else np.where(rng.random(shape) < lost, -1.0, rest)


def only(rng: np.random.Generator, shape: tuple[int, int], mean: float) -> Floats | None:
    """As many lose everything as make up the mean; the others do not differ."""
    return np.where(rng.random(shape) < -mean, -1.0, 0.0) if mean < 0 else None


def noisy(
    rng: np.random.Generator, shape: tuple[int, int], mean: float, *, lost: float
) -> Floats | None:
    """Few lose everything, a tenth moves up or down, and the others have one value."""
    rest = (mean + lost) / (1 - lost)
    if rest + NOISE > 1:
        return None
    which = rng.random(shape)
    moved = np.where(rng.random(shape) < 0.5, NOISE, -NOISE)  # noqa: PLR2004  heads or tails
    return np.where(which < lost, -1.0, rest + np.where(which < lost + NOISY, moved, 0.0))


def rises(
    rng: np.random.Generator, shape: tuple[int, int], mean: float, *, gained: float
) -> Floats | None:
    """Few gain everything, and all others have one value."""
    rest = (mean - gained) / (1 - gained)
    return None if rest < -1 else np.where(rng.random(shape) < gained, 1.0, rest)


def tail(
    rng: np.random.Generator, shape: tuple[int, int], mean: float, *, side: float
) -> Floats | None:
    """Exponential tail on one side, cut off."""
    scale = min(0.2, (1 - abs(mean)) / LONGEST)
    kept = -np.log1p(-rng.random(shape) * -np.expm1(-LONGEST))
    middle = 1 - LONGEST / np.expm1(LONGEST)
    return np.asarray(mean + side * scale * (kept - middle))


def steps(
    rng: np.random.Generator, shape: tuple[int, int], mean: float, *, moved: float
) -> Floats | None:
    """As differences of nDCG@10 are: most are 0, the others one of a few steps up or down."""
    apart = mean / float(STEPS @ OFTEN)
    if abs(apart) > moved:
        return None
    sign = rng.choice(
        [1.0, -1.0, 0.0], shape, p=[(moved + apart) / 2, (moved - apart) / 2, 1 - moved]
    )
    return np.asarray(sign * rng.choice(STEPS, shape, p=OFTEN))


def coin(rng: np.random.Generator, shape: tuple[int, int], mean: float) -> Floats | None:
    """All or nothing, the widest spread that there is."""
    return np.where(rng.random(shape) < (1 + mean) / 2, 1.0, -1.0)


def families() -> tuple[Family, ...]:
    """Give every family."""
    return (
        Family("a tenth moves by steps of nDCG@10", partial(steps, moved=ALIKE)),
        Family("four tenths move by steps of nDCG@10", partial(steps, moved=UNLIKE)),
        Family("total losses alone", only),
        *(Family(f"{p:.0%} total losses", partial(rare, lost=p)) for p in (0.01, 0.02, 0.05, 0.1)),
        *(Family(f"{p:.0%} total losses, noise", partial(noisy, lost=p)) for p in (0.01, 0.05)),
        *(Family(f"{p:.0%} total gains", partial(rises, gained=p)) for p in (0.02, 0.1)),
        Family("a tail of losses", partial(tail, side=-1.0)),
        Family("a tail of gains", partial(tail, side=1.0)),
        Family("all or nothing", coin),
        *(
            Family(f"5% total losses, clusters of {size}", partial(rare, lost=0.05), size)
            for size in (2, 4, 8)
        ),
    )
