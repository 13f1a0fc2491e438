"""How often intervals, plans and gates are wrong where the truth is known: tables of families.

    python3 run.py python benchmarks/simulate.py logs --trials 2000
    python3 run.py python benchmarks/simulate.py all

A family is a sampler and its parameters; a table is a row for each. Every number is a share of
seeded trials, so a table is the same each time, and the suite draws the same families with fewer
trials. What shipped gates promote wrongly is the table of ``benchmarks/verdicts.py``.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from benchmarks.simulate_times import (
    CONFIDENCE,
    SEED,
    Floats,
    Ints,
    Rng,
    traffic_rows,
)
from benchmarks.verdict_families import OFTEN, STEPS
from harness.core.gate import Verdict
from harness.core.records import Drawn
from harness.core.scores import Estimate
from harness.gates.base.rules import TOUCH, Where, above
from harness.stats.bounded import SHORT, ValueRange, chance_above, low_ends
from harness.stats.inference import Inference
from harness.stats.interval import interval_each, share, traffic_mean_each
from harness.stats.sample_size import IntervalTarget, planned

POWER = 0.8
LEVEL = (1 - CONFIDENCE) / 2
INFERENCE = Inference(confidence=CONFIDENCE, resamples=1_000, seed=SEED)
DIFFERENCES, SCORES = ValueRange(-1.0, 1.0), ValueRange(0.0, 1.0)
INF = math.inf
Bools = NDArray[np.bool_]
Draw = Callable[[Rng, tuple[int, int], float], Floats | None]
"""Draws values of a mean, shape (units, trials); None for a mean that the family cannot have."""


# Differences whose mean is known, drawn so that a sample hides as much as it can.


class Family(NamedTuple):
    """One way to hide a mean."""

    name: str
    draw: Draw
    size: int = 1
    """Queries of a cluster, which have one value."""

    def sample(
        self, rng: Rng, queries: int, trials: int, mean: float
    ) -> tuple[Floats, Ints | None] | None:
        """Draw so many queries, or as many whole clusters as fit; shape (queries, trials)."""
        units = max(2, queries // self.size)
        values = self.draw(rng, (units, trials), mean)
        if values is None or self.size == 1:
            return None if values is None else (values, None)
        return np.repeat(values, self.size, axis=0), np.repeat(np.arange(units), self.size)


def rare(
    rng: Rng, shape: tuple[int, int], mean: float, *, part: float, end: float = -1.0,
    noise: float = 0.0,
) -> Floats | None:  # fmt: skip
    """Move few queries to the end; all others have one value, or a tenth of them two around it."""
    rest = (mean - end * part) / (1 - part)
    if abs(rest) + noise > 1:
        return None
    which = rng.random(shape)
    if not noise:
        return np.where(which < part, end, rest)
    moved = np.where(rng.random(shape) < 0.5, noise, -noise)  # noqa: PLR2004  heads or tails
    return np.where(which < part, end, rest + np.where(which < part + 0.1, moved, 0.0))


def only(rng: Rng, shape: tuple[int, int], mean: float) -> Floats | None:
    """Lose everything as often as makes up the mean; the others do not differ."""
    return np.where(rng.random(shape) < -mean, -1.0, 0.0) if mean < 0 else None


def tail(rng: Rng, shape: tuple[int, int], mean: float, *, side: float) -> Floats | None:
    """Draw an exponential tail on one side, cut off after five scales."""
    scale = min(0.2, (1 - abs(mean)) / 5)
    kept = -np.log1p(-rng.random(shape) * -np.expm1(-5.0))
    return np.asarray(mean + side * scale * (kept - (1 - 5 / np.expm1(5.0))))


def steps(rng: Rng, shape: tuple[int, ...], mean: float, *, moved: float) -> Floats | None:
    """Draw differences as those of nDCG@10 are: most 0, the others one of a few steps."""
    apart = mean / float(STEPS @ OFTEN)
    if abs(apart) > moved:
        return None
    chances = [(moved + apart) / 2, (moved - apart) / 2, 1 - moved]
    return np.asarray(
        rng.choice([1.0, -1.0, 0.0], shape, p=chances) * rng.choice(STEPS, shape, p=OFTEN)
    )


def coin(rng: Rng, shape: tuple[int, int], mean: float) -> Floats | None:
    """Draw all or nothing, the widest spread that there is."""
    return np.where(rng.random(shape) < (1 + mean) / 2, 1.0, -1.0)


ALIKE, UNLIKE = 0.1, 0.4
"""Share of the queries that move between two engines that are alike, and two that are not."""
FAMILIES = (
    Family("a tenth moves by steps of nDCG@10", partial(steps, moved=ALIKE)),
    Family("four tenths move by steps of nDCG@10", partial(steps, moved=UNLIKE)),
    Family("total losses alone", only),
    *(Family(f"{p:.0%} total losses", partial(rare, part=p)) for p in (0.01, 0.02, 0.05, 0.1)),
    *(
        Family(f"{p:.0%} total losses, noise", partial(rare, part=p, noise=0.3))
        for p in (0.01, 0.05)
    ),
    *(Family(f"{p:.0%} total gains", partial(rare, part=p, end=1.0)) for p in (0.02, 0.1)),
    Family("a tail of losses", partial(tail, side=-1.0)),
    Family("a tail of gains", partial(tail, side=1.0)),
    Family("all or nothing", coin),
    *(
        Family(f"5% total losses, clusters of {size}", partial(rare, part=0.05), size)
        for size in (2, 4, 8)
    ),
)


class GateCase(NamedTuple):
    """The question of a gate: on which side of ``limit`` the mean lies."""

    rule: str
    limit: float
    passes: Where
    good: float
    """The mean where power is counted."""
    span: ValueRange = DIFFERENCES

    def drawn(
        self, family: Family, rng: Rng, queries: int, trials: int, mean: float
    ) -> tuple[Floats, Ints | None] | None:
        """Draw values of this gate's span; families draw from -1 to 1."""
        least, most = self.span
        found = family.sample(rng, queries, trials, 2 * (mean - least) / (most - least) - 1)
        return found and (least + (found[0] + 1) * (most - least) / 2, found[1])


GATES = (
    GateCase("non_inferior", -0.02, "above", 0.0),
    GateCase("superior", 0.0, "above", 0.05),
    GateCase("equivalent", 0.05, "within", 0.0),
    GateCase("agreement_floor", 0.8, "above", 0.9, SCORES),
)


def clears(
    values: Floats, clusters: Ints | None, span: ValueRange, low: float = -INF, high: float = INF
) -> Bools:
    """Return whether the interval of each column is between the two."""
    said = np.ones(values.shape[1], dtype=bool)
    for turn, end in ((1, low), (-1, -high)):
        if end > -INF and said.any():
            least, most = sorted((turn * span.least, turn * span.most))
            said[said] = (
                chance_above(
                    turn * values[:, said],
                    end + TOUCH,
                    span=ValueRange(least, most),
                    clusters=clusters,
                )
                < LEVEL
            )
    return said


def passes(asked: GateCase, values: Floats, clusters: Ints | None) -> Bools:
    """Return of each column whether the gate passes."""
    if asked.passes == "above":
        return clears(values, clusters, asked.span, low=asked.limit)
    return clears(values, clusters, asked.span, low=-asked.limit, high=asked.limit)


def fails(asked: GateCase, values: Floats, clusters: Ints | None) -> Bools:
    """Return of each column whether the gate fails."""
    if asked.passes == "above":
        return clears(values, clusters, asked.span, high=asked.limit)
    outside = clears(values, clusters, asked.span, low=asked.limit)
    return outside | clears(values, clusters, asked.span, high=-asked.limit)


class Wrong(NamedTuple):
    """Shares of trials in which a gate passes, and fails, where the truth is its bound."""

    family: str
    passed: Estimate
    failed: Estimate


def at_bound(asked: GateCase, queries: int, trials: int) -> Iterator[Wrong]:
    """Yield what came of each family that can have the gate's bound as its mean."""
    truths = (-asked.limit, asked.limit) if asked.passes == "within" else (asked.limit,)
    for number, family in enumerate(FAMILIES):
        for truth in truths:
            rng = np.random.default_rng((SEED, number, queries))
            counts, seen = np.zeros(2, dtype=int), 0
            for start in range(0, trials, 2_000):
                size = min(2_000, trials - start)
                drawn = asked.drawn(family, rng, queries, size, truth)
                if drawn is not None:
                    counts += [passes(asked, *drawn).sum(), fails(asked, *drawn).sum()]
                    seen += size
            if seen:
                shares = (share(int(n), seen, confidence=CONFIDENCE) for n in counts)
                yield Wrong(family.name, *shares)


def power(asked: GateCase, queries: int, trials: int, moved: float) -> float | None:
    """Return the share of PASS where the mean is ``good`` and a share of the queries moves.

    Agreements are beta variables, the wider the more queries move. None where so few cannot have
    that mean.
    """
    rng = np.random.default_rng((SEED, queries))
    if asked.span == SCORES:
        shape = asked.good / moved, (1 - asked.good) / moved
        return float(passes(asked, rng.beta(*shape, (queries, trials)), None).mean())
    drawn = asked.drawn(Family("", partial(steps, moved=moved)), rng, queries, trials, asked.good)
    return None if drawn is None else float(passes(asked, *drawn).mean())


def gate_rows(trials: int) -> Iterator[Sequence[str]]:
    """Yield a row for each gate and number of queries: the worst of all families."""
    for asked in GATES:
        for queries in (50, 200, 400):
            found = list(at_bound(asked, queries, trials))
            passed = max(found, key=lambda one: one.passed.value)
            failed = max(one.failed.value for one in found)
            few = max(20, trials // 10)
            right = (power(asked, queries, few, moved) for moved in (ALIKE, UNLIKE))
            yield (
                f"`{asked.rule}`", f"{asked.limit:g}", f"{queries}", f"{passed.passed.value:.2%}",
                passed.family, f"{failed:.2%}",
                *("" if one is None else f"{one:.1%}" for one in right),
            )  # fmt: skip


# The exact level of the bound that decides.


def exact_tail(kinds: Floats, counts: Floats, bound: float) -> float:
    """Return the exact chance that the Dirichlet-weighted mean lies below ``bound``.

    ``kinds`` are values, each there ``counts`` times, the unseen one among them. The chance that
    the sum of exponentials times (value - bound) is negative is the contour integral of its moment
    generating function over s, along the vertical line through the saddlepoint.
    """
    around = kinds - bound
    if around.max() <= 0 or around.min() >= 0:
        return float(around.max() <= 0)
    ends = 1 / around.min(), 1 / around.max()
    inside = 1 - 1e-13
    middle = brentq(
        lambda s: (counts * around / (1 - s * around)).sum(), ends[0] * inside, ends[1] * inside
    )
    width = 1 / np.sqrt((counts * (around / (1 - middle * around)) ** 2).sum())
    start = middle if abs(middle) > width / 10 else -min(width, -ends[0]) / 2
    along = np.linspace(0, 12, 1_201)
    s = start + 1j * width * np.sinh(along)
    moments = np.exp(-(counts * np.log(1 - s[:, None] * around)).sum(axis=1))
    heights = (moments / s).real * width * np.cosh(along)
    area = (along[1] - along[0]) * (heights.sum() - heights[0] / 2) / np.pi
    return float(-area if start < 0 else 1 - area)


def overstated(kinds: Floats, counts: Ints, level: float) -> float:
    """Return the exact level of the low end of values within 0 and 1, over ``level``."""
    values = np.repeat(kinds, counts).reshape(-1, 1)
    (low,) = low_ends(values, span=SCORES, level=level, clusters=None)
    here = counts > 0
    return exact_tail(np.append(kinds[here], 0.0), np.append(counts[here], 1.0), float(low)) / level


def most_overstated(level: float, tries: int) -> float:
    """Search samples of up to four kinds for the highest ``overstated``; the rest moves from it."""
    rng = np.random.default_rng((SEED, round(1 / level)))
    best: tuple[float, Floats, Ints] = (0.0, np.ones(1), np.ones(1, dtype=np.int64))
    for at in range(tries):
        if at % 3 == 0:
            kinds = rng.random(rng.integers(2, 5)) ** rng.choice([1, 3])
            queries = int(np.exp(rng.uniform(1, 7.4)))
            counts = rng.multinomial(queries, rng.dirichlet(np.full(len(kinds), 0.4)))
        else:
            step, many = 0.1 ** rng.integers(0, 3), len(best[1])
            kinds = np.clip(best[1] * np.exp(step * rng.normal(size=many)), 0, 1)
            moved = best[2] * np.exp(step * rng.normal(size=many)) + rng.integers(-1, 2, many)
            counts = np.clip(np.round(moved), 0, 3_000).astype(np.int64)
        if counts.sum() and kinds[counts > 0].max() > 0:
            found = overstated(kinds, counts, level)
            best = max(best, (found, kinds, counts), key=lambda one: one[0])
    return best[0]


def bound_rows(trials: int) -> Iterator[Sequence[str]]:
    """Yield a row for each level: the exact one of the worst sample found."""
    for level in (0.25, 0.05, 0.025, 0.005, 0.0025, 0.0005, 5e-7):
        times = most_overstated(level, trials)
        yield f"{level:g}", f"{times * level:.3g}", f"{times * SHORT:.3f}"


# Plans, and whether as many queries as planned pass.


class Kept(NamedTuple):
    """What came of the plans of several pilots."""

    queries: int
    """Median of the plans."""
    passed: float
    """Share of the samples that passed, over all pilots."""
    enough: float
    """Share of the pilots whose samples passed as often as planned."""


def kept(mean: float, moved: float, *, pilot: int, bound: float, pilots: int, samples: int) -> Kept:
    """Plan from pilots of so many queries, draw samples as large as planned, and judge them.

    Raises:
        ValueError: no number of queries shows a mean above ``bound``.
    """
    rng = np.random.default_rng((SEED, pilot, pilots))
    counts, shares = [], []

    def drawn(shape: tuple[int, ...]) -> Floats:
        values = steps(rng, shape, mean, moved=moved)
        assert values is not None, mean  # noqa: S101  chosen so
        return values

    for _ in range(pilots):
        count = planned(
            drawn((pilot,)), IntervalTarget(mean, bound), span=DIFFERENCES, confidence=CONFIDENCE,
            power=POWER, clusters=None,
        )  # fmt: skip
        if count is None:
            raise ValueError(f"no number of queries shows a mean above {bound:g}")
        estimates = interval_each(
            drawn((count, samples)), span=DIFFERENCES, inference=INFERENCE, clusters=None
        )
        counts.append(count)
        shares.append(np.mean([above(one, bound) is Verdict.PASS for one in estimates]))
    every, noise = np.array(shares), 2 * (POWER * (1 - POWER) / samples) ** 0.5
    return Kept(int(np.median(counts)), float(every.mean()), float((every >= POWER - noise).mean()))


MOVES = ((-0.02, 0.4), (0.0, 0.4), (0.016, 0.2), (0.0, 0.1))
"""Mean of the differences, and share of the queries that move."""


def plan_rows(trials: int) -> Iterator[Sequence[str]]:
    """Yield a row for each kind of difference and size of pilot."""
    size = max(2, trials // 40)
    for mean, moved in MOVES:
        for pilot in (30, 100, 1_000):
            found = kept(mean, moved, pilot=pilot, bound=mean - 0.05, pilots=size, samples=4 * size)
            yield (
                f"{moved:.0%} move, mean {mean:g}", f"{pilot:,}", f"{found.queries:,}",
                f"{found.passed:.0%}", f"{found.enough:.0%}",
            )  # fmt: skip


# Means over the traffic of a log, from a sample of its queries.

LOG = 3_000
"""Queries of a log."""


class Covered(NamedTuple):
    """Shares of the samples, and means over them."""

    traffic: float
    """Whose interval of the traffic mean contains it."""
    width: float
    plain_bias: float
    """Mean of the plain means, minus the mean of the traffic."""


def traffic_means(size: int, trials: int, *, moved: float | None = None) -> Covered:
    """Sample logs whose frequent queries are better served than rare ones.

    With ``moved``, values are differences of two engines that are alike in all but this share of
    the queries.
    """
    rng = np.random.default_rng((20_261_124, size))
    count = np.ceil(rng.pareto(1.1, LOG) + 1e-9).astype(np.int64)
    count = np.sort(np.maximum(count, 1))[::-1]
    code = np.minimum(2, 3 * (np.cumsum(count) - count) // count.sum())
    if moved is None:
        values = rng.beta(1, 1, LOG) * (rng.random(LOG) > 0.3)  # noqa: PLR2004  finds nothing
        values, span = np.clip(values + 0.3 * (code == 0) - 0.1, 0, 1), SCORES
    else:
        ways = rng.choice((0.37, 0.5, 0.63, 1.0), LOG) * np.where(rng.random(LOG) < 0.6, -1, 1)  # noqa: PLR2004  get worse
        values, span = np.where(rng.random(LOG) < moved, ways, 0.0), DIFFERENCES
    true = float(values @ count / count.sum())
    sizes = np.array([(code == at).sum() for at in range(3)])
    taken = np.minimum(sizes, [size // 3] * 3)
    held, means, widths = 0, [], []
    for _ in range(trials):
        rows = np.concatenate([
            rng.choice(np.flatnonzero(code == at), taken[at], replace=False) for at in range(3)
        ])
        drawn = [
            Drawn(str(code[row]), float(taken[code[row]] / sizes[code[row]]), int(count[row]))
            for row in rows
        ]
        column = values[rows].reshape(-1, 1)
        (found,) = traffic_mean_each(column, drawn, spans=[span], inference=INFERENCE)
        if found is not None:
            held += found.estimate.low <= true <= found.estimate.high
            widths.append(found.estimate.high - found.estimate.low)
        means.append(values[rows].mean())
    return Covered(held / trials, float(np.mean(widths)), float(np.mean(means)) - true)


def log_rows(trials: int) -> Iterator[Sequence[str]]:
    """Yield a row for each size of a sample of a log."""
    for name, moved in {"nDCG@10": None, "10 % moved": 0.1, "3 % moved": 0.03}.items():
        for size in (24, 60, 150, 400):
            found = traffic_means(size, trials, moved=moved)
            bias = f"{found.plain_bias:+.3f}"
            yield name, f"{size}", f"{found.traffic:.2%}", f"{found.width:.3f}", bias


class Table(NamedTuple):
    """A table: its head, with ``>`` before a column of numbers, and its rows by trials."""

    head: str
    rows: Callable[[int], Iterable[Sequence[str]]]

    def lines(self, trials: int) -> Iterator[str]:
        """Yield the table as Markdown."""
        names = self.head.split(" | ")
        yield "| " + " | ".join(name.removeprefix(">") for name in names) + " |"
        marks = ("---:" if name.startswith(">") else "---" for name in names)
        yield "| " + " | ".join(marks) + " |"
        for row in self.rows(trials):
            yield "| " + " | ".join(row) + " |"


TABLES: Mapping[str, Table] = {
    "bound": Table(">level | >exact level, worst | >over r*", bound_rows),
    "gates": Table(
        "gate | >bound | >queries | >false PASS, worst | family | >false FAIL, worst"
        " | >PASS, alike | >PASS, unlike",
        gate_rows,
    ),
    "plans": Table(
        "differences | >pilot | >planned | >passes there | >pilots whose plan does", plan_rows
    ),
    "logs": Table(
        "values | >sampled queries | >coverage | >width | >plain mean minus that of the traffic",
        log_rows,
    ),
    "traffic": Table(
        "traffic | >pairs that fail | >passes on any day | >fails on any day", traffic_rows
    ),
}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=[*TABLES, "all"])
    parser.add_argument("--trials", type=int, default=2_000)
    asked = parser.parse_args()
    for name, table in TABLES.items():
        if asked.which in (name, "all"):
            print("\n".join(table.lines(asked.trials)), end="\n\n", flush=True)  # noqa: T201  the output


if __name__ == "__main__":
    main()
