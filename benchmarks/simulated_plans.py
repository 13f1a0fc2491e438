"""How often a gate passes with as many queries as were planned, where the truth is as assumed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.simulated_differences import CONFIDENCE, SEED, Case
from benchmarks.simulated_power import DIFFERENCES, POWER, RESAMPLES
from harness.core.gate import Verdict
from harness.gates.base.rules import above
from harness.stats.inference import Inference
from harness.stats.interval import interval_each
from harness.stats.sample_size.planning import Target, planned


class Kept(NamedTuple):
    """What came of the plans of several pilots."""

    queries: int
    """Median of the plans."""
    passed: float
    """Share of the samples that passed, over all pilots."""
    enough: float
    """Share of the pilots whose samples passed as often as planned."""


def kept(case: Case, *, pilot: int, bound: float, pilots: int, samples: int) -> Kept:
    """Plan from pilots of so many queries, draw samples as large as planned, and judge them."""
    rng = np.random.default_rng((SEED, pilot, pilots))
    counts, shares = [], []
    for _ in range(pilots):
        count = planned(
            case.draw(rng, (pilot,)),
            Target(case.mean, bound),
            span=DIFFERENCES,
            confidence=CONFIDENCE,
            power=POWER,
            clusters=None,
        )
        if count is None:
            raise ValueError(f"{case.name}: no number of queries shows a mean above {bound:g}")
        estimates = interval_each(
            case.draw(rng, (count, samples)),
            span=DIFFERENCES,
            inference=Inference(confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED),
            clusters=None,
        )
        counts.append(count)
        shares.append(np.mean([above(one, bound) is Verdict.PASS for one in estimates]))
    every = np.array(shares)
    noise = 2 * (POWER * (1 - POWER) / samples) ** 0.5
    return Kept(int(np.median(counts)), float(every.mean()), float((every >= POWER - noise).mean()))
