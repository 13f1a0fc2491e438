"""Simulate a gate where hits are not judged: an equal candidate, and one that loses the margin.

Each query has ten hits of the control and ten relevant documents that neither arm shows. In some
queries the candidate has three other hits. A share of all documents is judged, at random, and one
relevant document is always. A sample is drawn, its relevant hits' queries are judged whole, and
the gate is judged as ``harness.gates.base.completions`` does.

    python3 run.py python benchmarks/unjudged.py --trials 100
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.gate import Verdict
from harness.core.scores import Estimate
from harness.gates.base.completions import NONE, Bound, Completions
from harness.gates.base.rules import Rules
from harness.measures.unjudged import drawn
from harness.measures.unjudged.bounds import Bounding
from harness.measures.unjudged.completed import Hits, Ratios
from harness.measures.unjudged.drawn import Draw
from harness.measures.unjudged.missing import Missing
from harness.stats.bounded import Span
from harness.stats.interval import interval

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
DEPTH, OTHERS, ELSEWHERE = 10, 3, 10
RELEVANT = 0.5 / np.sqrt(np.arange(1, DEPTH + 1))
"""Of the control's hits, by rank."""
SPARSE = 0.1
"""Relevant documents that neither arm shows, each with this probability."""
SIZES = {0: "none", 200: "200", 600: "600", 1_000_000: "all"}
MANY = 20_000
"""Queries of the world by which the margin is found."""
EITHER = Span(-1.0, 1.0)
WANTED = Bounding.of("nDCG@10", (0, 1))


class Trial(NamedTuple):
    """One drawn world: what is judged, and what would be."""

    hits: Hits
    known: Missing
    relevant: Flags
    """Shape (open hits,): what judging would find."""
    truth: Floats
    """Shape (queries,): the difference with all judged."""


@dataclass(frozen=True, slots=True)
class World:
    """A law of queries."""

    queries: int
    judged: float
    """Share of the documents that are judged."""
    moved: float = 0.3
    """Share of the queries in which the candidate has other hits."""
    worse: float = 0.0
    """So much more rarely the candidate's own hits are relevant."""
    hidden: bool = False
    """Whether the control's relevant own hits and the candidate's own hits are never judged."""

    def trial(self, rng: np.random.Generator) -> Trial:
        """Draw one."""
        shape = (self.queries, DEPTH)
        other = np.zeros(shape, dtype=bool)
        other[:, :OTHERS] = rng.random((self.queries, 1)) < self.moved
        other = rng.permuted(other, axis=1)
        law = np.broadcast_to(RELEVANT, shape)
        both = rng.random(shape) < law
        own = (rng.random(shape) < law * (1 - self.worse)) & other
        elsewhere = rng.random((self.queries, ELSEWHERE)) < SPARSE
        elsewhere[:, 0] = True
        rank = np.broadcast_to(np.arange(1, DEPTH + 1), shape)
        row = np.broadcast_to(np.arange(self.queries)[:, None], shape)
        query = np.concatenate([row.ravel(), row[other]])
        control = np.concatenate([rank.ravel(), np.zeros(int(other.sum()), dtype=np.int64)])
        candidate = np.concatenate([np.where(other, 0, rank).ravel(), rank[other]])
        good = np.concatenate([both.ravel(), own[other]])
        order = np.argsort(query, kind="stable")
        query, control, candidate, good = (one[order] for one in (query, control, candidate, good))
        seen = rng.random(len(query)) < self.judged
        if self.hidden:
            seen &= (control > 0) & ((candidate > 0) | ~good)
        beside = np.repeat(np.arange(self.queries), ELSEWHERE), elsewhere.ravel()
        pooled = np.tile(np.arange(ELSEWHERE) == 0, self.queries)
        pooled |= rng.random(len(beside[0])) < self.judged
        part = _hits(
            self.queries, (query, control, candidate), good, seen,
            (beside[0][pooled], beside[1][pooled]),
        )  # fmt: skip
        # What neither arm shows and no one judged stays irrelevant, in the truth too.
        whole = _hits(
            self.queries, (query, control, candidate), good, np.ones(len(good), dtype=bool),
            (beside[0][pooled], beside[1][pooled]),
        )  # fmt: skip
        effects = Ratios.of(part, WANTED).effects()
        found = Missing(
            "nDCG@10",
            tuple(map(str, range(self.queries))),
            effects.difference,
            effects.worst,
            effects.best,
            part.query[part.open],
            (),
            effects.loss,
            effects.gain,
        )
        truth = Ratios.of(whole, WANTED).effects().difference
        return Trial(part, found, good[part.open], truth)


def _hits(
    queries: int,
    columns: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    good: Flags,
    seen: Flags,
    beside: tuple[NDArray[np.int64], Flags],
) -> Hits:
    gains = (good & seen).astype(np.float64)
    judged = np.concatenate([columns[0][seen], beside[0]])
    values = np.concatenate([gains[seen], beside[1].astype(np.float64)])
    return Hits(queries, *columns, gains, np.flatnonzero(~seen), judged, values)


def verdict_of(
    trial: Trial, size: int, bound: Bound, rules: Rules, rng: np.random.Generator
) -> tuple[Verdict, int]:
    """Judge a gate by a sample of ``size`` hits, 0 for none; count the hits that were judged."""
    judged, labels = None, 0
    found = trial.known
    if size:
        rate = drawn.rate_of(found, size)
        chance = np.minimum(1.0, rate * found.weight)
        took = Draw(chance, rng.random(len(chance)) < chance)
        seen = drawn.seen_by(found, took, trial.relevant)
        labels = int((took.taken | seen[found.query]).sum())
        moved = trial.truth - found.difference
        judged = drawn.weighed(found, took, trial.relevant, moved, rate)
    every = Completions(
        found.difference, found.worst, found.best, found, judged, 0, "", ("a", "b"), "made"
    )
    return bound.verdict(every.over(NONE, _interval, rules)), labels


def _interval(values: Floats, span: Span | None, rules: Rules) -> Estimate:
    return interval(values, span=span or EITHER, inference=rules, clusters=None)


def at_margin(world: World, margin: float, rng: np.random.Generator) -> World:
    """Find the candidate that truly loses the margin, by bisection over one large drawn world."""
    low, high, many = 0.0, 1.0, replace(world, queries=MANY)
    for _ in range(10):
        middle = (low + high) / 2
        loss = -float(replace(many, worse=middle).trial(rng).truth.mean())
        low, high = (middle, high) if loss < margin else (low, middle)
    if high == 1.0:
        raise ValueError(f"no candidate of this world loses {margin:g}; name a smaller margin")
    return replace(world, worse=high)


def passed(  # noqa: PLR0917  all of it is needed
    world: World, size: int, bound: Bound, rules: Rules, trials: int, seed: int
) -> Iterator[tuple[bool, int]]:
    """Yield for each trial whether the gate passed, and the labels that it took."""
    for at in range(trials):
        rng = np.random.default_rng((seed, at))
        verdict, labels = verdict_of(world.trial(rng), size, bound, rules, rng)
        yield verdict is Verdict.PASS, labels


def main() -> None:
    """Print the table of docs/statistics.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--margin", type=float, default=0.03)
    wanted = parser.parse_args()
    head = ("judged", "drawn", "labels", "equal", "loses the margin", "loses it unjudged")
    sys.stdout.write(f"| {' | '.join(head)} |\n|{' ---: |' * len(head)}\n")
    bound = Bound(-wanted.margin)
    rules = Rules(confidence=0.95, resamples=1_000, seed=1, power=0.8)
    for share in (0.9, 0.7, 0.5, 0.2):
        equal = World(wanted.queries, share)
        rng = np.random.default_rng(7)
        lost = (at_margin(one, wanted.margin, rng) for one in (equal, replace(equal, hidden=True)))
        worlds = (equal, *lost)
        for size, said in SIZES.items():
            cells = [[*passed(one, size, bound, rules, wanted.trials, 3)] for one in worlds]
            rates = [f"{100 * np.mean([fine for fine, _ in cell]):.1f}%" for cell in cells]
            labels = round(float(np.mean([count for _, count in cells[0]])))
            row = (f"{share:.0%}", said, f"{labels:,}", *rates)
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
