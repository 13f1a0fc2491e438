"""How often the statistics are wrong where the truth is known: the tables of docs/statistics.md.

    python3 run.py python benchmarks/simulations.py all
    python3 run.py python benchmarks/simulations.py coverage --trials 4000

Every number is a share of seeded trials; the suite runs the same functions with fewer of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.simulated_differences import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Case,
    cases,
    losing,
    real,
    steps,
)
from benchmarks.simulated_samples import MARGIN, chained, coverage, family, non_inferiority
from benchmarks.simulated_times import clinging, stationary
from benchmarks.simulated_traffic import LIVE, live, ones, peeking
from harness.gates.base.rules import TOUCH
from harness.stats.bootstrap import bca_each
from harness.stats.randomization import sign_flip_each

FEW = 5
"""Queries whose signs can fall out in 32 ways, none of them rarer than 1 in 16 on two sides."""
SCORES = Path("build/python-docs/scores/per_query.parquet")
PAIRS = (("fts5", "tantivy"), ("tantivy", "hybrid"))


def show_coverage(trials: int) -> Iterator[str]:
    """One line for each kind of difference and number of queries."""
    yield "| differences | queries | holds it | lies above | lies below | plain BCa does |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    every = (*cases(), *(real(SCORES, pair) for pair in PAIRS if SCORES.exists()))
    for case in every:
        for queries in (50, 200):
            shares = coverage(case, queries, trials)
            yield f"| {case.name} | {queries} | " + " | ".join(f"{s:.2%}" for s in shares) + " |"


def show_few(trials: int) -> Iterator[str]:
    """One line for samples of 50 of which few moved, and for those of which more did."""
    case, rng = steps("90 % zero", 0.05, 0.05), np.random.default_rng((SEED, 50))
    values = case.draw(rng, (50, trials))
    found = bca_each(values, confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED, clusters=None)
    p_values = sign_flip_each(
        values,
        shift=0.0,
        alternative="two-sided",
        resamples=RESAMPLES,
        seed=SEED,
        clusters=None,
    )
    held = np.array([each.low <= TOUCH and each.high >= -TOUCH for each in found])
    kept, few = np.array(p_values) > 1 - CONFIDENCE, (values != 0).sum(axis=0) <= FEW
    yield "| queries that moved | samples | interval holds it | sign-flip test keeps it |"
    yield "| --- | ---: | ---: | ---: |"
    for name, which in ((f"up to {FEW}", few), (f"more than {FEW}", ~few), ("all", few | ~few)):
        shares = (which.mean(), held[which].mean(), kept[which].mean())
        yield f"| {name} | " + " | ".join(f"{share:.2%}" for share in shares) + " |"


def show_errors(trials: int) -> Iterator[str]:
    """One line for each way of being wrong."""
    yield "| what must be rare | seen | at most |"
    yield "| --- | ---: | ---: |"
    for slices in (4, 12):
        seen = family(slices, 60, trials)
        yield f"| harm found in any of {slices} slices, none harmed | {seen:.2%} | 5.9 % |"
    for queries in (50, 200):
        seen = non_inferiority(queries, trials // 2)
        yield f"| `non_inferior` passes at -{MARGIN}, {queries} queries | {seen:.2%} | 5 % |"
    seen = chained(100, trials // 2)
    yield f"| a wrong promotion along three stages, worst of eight truths | {seen:.2%} | 5 % |"


def show_peeking(trials: int) -> Iterator[str]:
    """One line for each kind of traffic."""
    yield "| values, their mean the bound | looks | betting promotes | the usual interval does |"
    yield "| --- | ---: | ---: | ---: |"
    for case in (
        Case("differences that lose the margin", losing(MARGIN).mean, losing(MARGIN).draw),
        Case("1 % ones", 0.01, ones),
        Case("overlaps around 0.8", 0.8, lambda rng, shape: 1.0 * rng.beta(4, 1, shape)),
    ):
        bet, looked = peeking(case, trials // 2, 10_000)
        yield f"| {case.name} | 10,000 | {bet:.2%} | {looked:.2%} |"
    yield ""
    yield "| gate | looks | passes on its bound | fails on it | passes well within it |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for rule in LIVE:
        shares = live(rule, trials, 1_000)
        yield f"| `{rule}` | 1,000 | " + " | ".join(f"{share:.2%}" for share in shares) + " |"


def show_series(trials: int) -> Iterator[str]:
    """One line for each percentile and coefficient."""
    yield "| percentile | AR(1) | times | interval holds it | series with an interval |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for percent in (50.0, 95.0):
        for phi in (0.0, 0.3, 0.6, 0.8):
            for times in (1_000, 4_000):
                held, given = clinging(percent, phi, times, trials)
                yield f"| p{percent:g} | {phi} | {times:,} | {held:.2%} | {given:.2%} |"


def show_short(trials: int) -> Iterator[str]:
    """One line for each coefficient and short series: where the method ends."""
    yield "| percentile | AR(1) | times | interval holds it | series with an interval |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for phi in (0.0, 0.6, 0.8, 0.9):
        for times in (400, 1_000):
            held, given = clinging(95.0, phi, times, trials)
            yield f"| p95 | {phi} | {times:,} | {held:.2%} | {given:.2%} |"


def show_blocks(trials: int) -> Iterator[str]:
    """One line for each percentile and coefficient: the way that was not taken."""
    yield "| percentile | AR(1) | times | stationary bootstrap holds it |"
    yield "| --- | ---: | ---: | ---: |"
    for percent in (50.0, 95.0):
        for phi in (0.3, 0.6, 0.8):
            held = stationary(percent, phi, 1_000, trials // 4)
            yield f"| p{percent:g} | {phi} | 1,000 | {held:.2%} |"


SHOWN: dict[str, Callable[[int], Iterator[str]]] = {
    "coverage": show_coverage,
    "few": show_few,
    "errors": show_errors,
    "peeking": show_peeking,
    "series": show_series,
    "short": show_short,
    "blocks": show_blocks,
}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=[*SHOWN, "all"])
    parser.add_argument("--trials", type=int, default=2_000)
    asked = parser.parse_args()
    for name, show in SHOWN.items():
        if asked.which in (name, "all"):
            for line in show(asked.trials):
                print(line, flush=True)  # noqa: T201  the output
            print()  # noqa: T201


if __name__ == "__main__":
    main()
