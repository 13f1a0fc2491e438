"""What resampling costs beside scipy: a Markdown table of medians, and a profile.

    python3 run.py python benchmarks/stats.py
    python3 run.py python benchmarks/stats.py --queries 1000 --resamples 2000 --rounds 5
    python3 run.py python benchmarks/stats.py --measures 10 --theirs 0

All ways take turns within a round, in an order that moves on by one each time. scipy.stats knows
neither shared draws nor several measures in one, so it is asked once a measure, and only for
``--theirs`` of the measures; what it would take for all is counted up.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Callable
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from harness.stats.bootstrap import bca_each
from harness.stats.bounded import Span, bounded_each
from harness.stats.inference import Inference
from harness.stats.interval import interval_each
from harness.stats.randomization import sign_flip_each

SEED = 20_261_122
FLIP, FLIP_PAIR, THEIR_FLIP = "sign flips", "sign flips, 2 threads", "scipy permutation_test"
DRAW, DRAW_PAIR, THEIR_DRAW = "BCa", "BCa, 2 threads", "scipy bootstrap, BCa"
BOUND, BOTH = "bound for bounded means", "interval: BCa and the bound"
THEIRS = frozenset({THEIR_FLIP, THEIR_DRAW})
SPAN = Span(-1.0, 1.0)
BATCH = 200
"""Resamples that scipy makes at once, so that it stays within some hundred megabytes."""

Values = NDArray[np.float64]


def differences(queries: int, measures: int) -> Values:
    """Half the queries do not move; the measures of a query move together."""
    rng = np.random.default_rng(SEED)
    moved = 0.2 * rng.normal(size=(queries, 1)) + 0.1 * rng.normal(size=(queries, measures))
    values: Values = np.where(rng.random((queries, 1)) < 0.5, 0.0, moved)  # noqa: PLR2004  half
    return np.clip(values, *SPAN)


def ways(values: Values, resamples: int, theirs: int) -> dict[str, Callable[[], object]]:
    """Everything that is timed, by name."""

    def flip(threads: int) -> object:
        return sign_flip_each(
            values,
            shift=0.0,
            alternative="two-sided",
            resamples=resamples,
            seed=SEED,
            clusters=None,
            threads=threads,
        )

    def draw(threads: int) -> object:
        return bca_each(
            values,
            confidence=0.95,
            resamples=resamples,
            seed=SEED,
            clusters=None,
            threads=threads,
        )

    def bound() -> object:
        return bounded_each(values, span=SPAN, level=0.025, clusters=None)

    def both() -> object:
        return interval_each(
            values,
            span=SPAN,
            inference=Inference(confidence=0.95, resamples=resamples, seed=SEED),
            clusters=None,
        )

    def their_flip() -> object:
        rng = np.random.default_rng(SEED)
        return [
            stats.permutation_test(
                (column,),
                np.mean,
                permutation_type="samples",
                vectorized=True,
                n_resamples=resamples,
                batch=BATCH,
                rng=rng,
            ).pvalue
            for column in values.T[:theirs]
        ]

    def their_draw() -> object:
        rng = np.random.default_rng(SEED)
        return [
            stats.bootstrap(
                (column,), np.mean, n_resamples=resamples, batch=BATCH, method="BCa", rng=rng
            ).confidence_interval
            for column in values.T[:theirs]
        ]

    return {
        FLIP: lambda: flip(1),
        FLIP_PAIR: lambda: flip(2),
        THEIR_FLIP: their_flip,
        DRAW: lambda: draw(1),
        DRAW_PAIR: lambda: draw(2),
        BOUND: bound,
        BOTH: both,
        THEIR_DRAW: their_draw,
    }


def timed(every: dict[str, Callable[[], object]], rounds: int) -> dict[str, Values]:
    """Milliseconds of each way, shape (rounds,)."""
    taken: dict[str, list[float]] = {name: [] for name in every}
    names = list(every)
    for at in range(rounds):
        for name in names[at % len(names) :] + names[: at % len(names)]:
            start = perf_counter_ns()
            every[name]()
            taken[name].append((perf_counter_ns() - start) / 1e6)
    return {name: np.array(each) for name, each in taken.items()}


def main() -> None:
    """Print the table, and where the time goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--measures", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--theirs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="profile ours instead")
    asked = parser.parse_args()
    every = ways(differences(asked.queries, asked.measures), asked.resamples, asked.theirs)
    if asked.profile:
        for name in (FLIP, DRAW):
            profile = cProfile.Profile()
            profile.runcall(every[name])
            pstats.Stats(profile).sort_stats("tottime").print_stats(8)
        return
    if not asked.theirs:
        every = {name: way for name, way in every.items() if name not in THEIRS}
    taken = timed(every, asked.rounds)
    for name in THEIRS & taken.keys():
        taken[name] = taken[name] * asked.measures / asked.theirs
    print("| way | ms, median | least | times as fast as scipy | of BCa's time |")  # noqa: T201  the output
    print("| --- | ---: | ---: | ---: | ---: |")  # noqa: T201
    for name, each in taken.items():
        their = taken.get(THEIR_FLIP if "flips" in name else THEIR_DRAW)
        scipy = "" if their is None or name in THEIRS else f"{np.median(their / each):.0f}"
        of_bca = f"{np.median(each / taken[DRAW]):.2f}"
        print(f"| {name} | {np.median(each):,.0f} | {each.min():,.0f} | {scipy} | {of_bca} |")  # noqa: T201


if __name__ == "__main__":
    main()
