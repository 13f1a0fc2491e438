"""How often ``no_slice_harmed`` passes or fails wrongly, and how often it passes rightly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.adversaries import ALIKE, Family, Floats, families, steps
from benchmarks.simulated_differences import SEED
from benchmarks.simulated_gates import LEVEL, GateCase, clears
from harness.stats import holm
from harness.stats.bounded import chance_above

Said = NDArray[np.bool_]


def harmed(slices: list[Floats], asked: GateCase) -> Said:
    """Say of each trial whether the gate fails; a column of each slice is a trial."""
    below = np.array([clears(each, None, asked.span, below=asked.limit) for each in slices])
    p_values = np.array([
        chance_above(-each, -asked.limit, span=asked.span, clusters=None) for each in slices
    ])
    adjusted = np.array([holm.adjusted(each) for each in p_values.T]).T
    return np.asarray((below & (adjusted <= LEVEL)).any(axis=0))


def passed(slices: list[Floats], asked: GateCase) -> Said:
    """Say of each trial whether the gate passes."""
    said = np.ones(slices[0].shape[1], dtype=bool)
    for each in slices:
        said[said] = clears(each[:, said], None, asked.span, above=asked.limit)
    return said


def drawn(family: Family, seed: int, shape: tuple[int, int], mean: float) -> Floats | None:
    """Draw one slice, by a seed of its own."""
    return family.draw(np.random.default_rng((SEED, seed)), shape, mean)


def sliced(slices: int, queries: int, margin: float, trials: int) -> tuple[float, float, float]:
    """Give the worst rates of a false PASS and a false FAIL, and that of a right PASS.

    PASS is false where one slice loses exactly the margin and the others nothing; FAIL is where all
    lose exactly the margin, which is no more than allowed. Nothing is lost where PASS is right.
    """
    asked = GateCase("no_slice_harmed", -margin, "above", 0.0)
    shape = (queries, trials)
    fine = []
    for at in range(slices):
        values = steps(np.random.default_rng((SEED, at)), shape, 0.0, moved=ALIKE)
        assert values is not None  # noqa: S101  no mean is easier than 0
        fine.append(values)
    passes, fails = [], []
    for family in families():
        at_margin = [drawn(family, 100 + at, shape, -margin) for at in range(slices)]
        if family.size == 1 and at_margin[0] is not None:
            bad = [each for each in at_margin if each is not None]
            passes.append(float(passed([bad[0], *fine[1:]], asked).mean()))
            fails.append(float(harmed(bad, asked).mean()))
    return max(passes), max(fails), float(passed(fine, asked).mean())


def losing(share: float, queries: int, margin: float, trials: int) -> float:
    """Share of PASS where a query of the slice loses everything with a chance of ``share``."""
    asked = GateCase("no_slice_harmed", -margin, "above", 0.0)
    lost = np.random.default_rng(SEED).random((queries, trials)) < share
    return float(passed([np.where(lost, -1.0, 0.0)], asked).mean())
