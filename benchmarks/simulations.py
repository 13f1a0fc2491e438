"""How often the statistics are wrong where the truth is known: the tables of docs/statistics.md.

    python3 run.py python benchmarks/simulations.py all
    python3 run.py python benchmarks/simulations.py coverage --trials 4000

Every number is a share of seeded trials; the suite runs the same functions with fewer of them. The
differences are made as those of nDCG@10 are: most queries do not move, and those that do move by
one of a few steps. ``real`` draws them from the differences of two arms that ``harness demo`` has
scored.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtr, ndtri

from harness.core.engine import Hit, Manifest
from harness.core.evidence import Agreement, Evidence, Side, Traffic
from harness.core.gate import Verdict
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.corpus.score_table import read_scores
from harness.gates import non_inferior
from harness.gates.base import registry
from harness.gates.base.rules import TOUCH, Rules
from harness.stats import holm
from harness.stats.anytime import anytime
from harness.stats.betting import Stakes, gains
from harness.stats.bootstrap import bca_each
from harness.stats.randomization import sign_flip_each
from harness.stats.resampling import drawn_sums
from harness.stats.series import series_interval

SEED, CONFIDENCE, RESAMPLES, MARGIN = 20_261_122, 0.95, 2_000, 0.02
AT_ONCE = 250
FEW = 5
"""Queries whose signs can fall out in 32 ways, none of them rarer than 1 in 16 on two sides."""
SCORES = Path("build/python-docs/scores/per_query.parquet")
PAIRS = (("fts5", "tantivy"), ("tantivy", "hybrid"))
STEPS = np.array([1.0, 0.6309, 0.5, 0.4307, 0.3691, 0.1309, 0.0693])
OFTEN = np.array([0.10, 0.10, 0.10, 0.15, 0.25, 0.15, 0.15])

LIVE: dict[str, dict[str, float]] = {
    "anytime_overlap": {"k": 10, "floor": 0.8, "min_pairs": 50},
    "anytime_failures": {"max_share": 0.05, "min_pairs": 50},
    "anytime_slow": {"max_ratio": 2.0, "max_share": 0.05, "min_pairs": 50},
}

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


@dataclass(frozen=True, slots=True)
class Case:
    """Differences whose mean is known."""

    name: str
    mean: float
    draw: Draw


def steps(name: str, rises: float, falls: float) -> Case:
    """Most differences are 0; the others rise or fall by one of the steps."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        sign = rng.choice([1.0, -1.0, 0.0], shape, p=[rises, falls, 1 - rises - falls])
        moved: Floats = sign * rng.choice(STEPS, shape, p=OFTEN)
        return moved

    return Case(name, (rises - falls) * float(STEPS @ OFTEN), draw)


def losing(margin: float) -> Case:
    """Give differences whose mean is exactly ``-margin``."""
    gap = margin / float(STEPS @ OFTEN)
    return steps(f"mean {-margin:g}", 0.2 - gap / 2, 0.2 + gap / 2)


def skewed() -> Case:
    """Many small gains and a tail of losses."""
    return Case("skewed", 0.0, lambda rng, shape: 0.1 - 0.1 * rng.exponential(size=shape))


def ones(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One value in a hundred is 1, as failures are."""
    return rng.binomial(1, 0.01, shape).astype(np.float64)


def real(path: Path, pair: tuple[str, str]) -> Case:
    """Differences of two arms, drawn with replacement."""
    found = read_scores(path, ["arm"])
    left, right = (found[(arm,)]["nDCG@10"].by_query for arm in pair)
    seen = np.array([right[q] - left[q] for q in left if q in right])
    return Case(
        f"real, {pair[1]} - {pair[0]}",
        float(seen.mean()),
        lambda rng, shape: rng.choice(seen, shape),
    )


def cases() -> tuple[Case, ...]:
    """Give what differences may look like."""
    return (
        steps("60 % zero, the rest tied", 0.2, 0.2),
        steps("80 % zero", 0.12, 0.08),
        steps("90 % zero", 0.05, 0.05),
        skewed(),
    )


def coverage(case: Case, queries: int, trials: int) -> tuple[float, float, float, float]:
    """Shares of intervals that hold the mean, that lie above it, and that lie below it.

    The last is the share of plain BCa intervals, as Efron wrote them, that hold it.
    """
    rng = np.random.default_rng((SEED, queries))
    ours, theirs = [], []
    for start in range(0, trials, AT_ONCE):
        values = case.draw(rng, (queries, min(AT_ONCE, trials - start)))
        seed = SEED + start
        found = bca_each(
            values, confidence=CONFIDENCE, resamples=RESAMPLES, seed=seed, clusters=None
        )
        ours += [(each.low, each.high) for each in found]
        means = drawn_sums(values, resamples=RESAMPLES, seed=seed) / queries
        theirs += [plain(*each) for each in zip(values.T, means.T, strict=True)]
    low, high = np.array(ours).T
    above = float((low > case.mean + TOUCH).mean())
    below = float((high < case.mean - TOUCH).mean())
    low, high = np.array(theirs).T
    held = (low <= case.mean + TOUCH) & (case.mean - TOUCH <= high)
    return 1 - above - below, above, below, float(held.mean())


def plain(values: Floats, means: Floats) -> tuple[float, float]:
    """Give the ends of Efron's interval, without anything held back."""
    pull = values - values.mean()
    if not pull.any():
        return float(values[0]), float(values[0])
    near = np.isclose(means, values.mean(), rtol=0, atol=1e-12)
    bias = ndtri(((means < values.mean()) & ~near).mean() + near.mean() / 2)
    ends = bias + ndtri(np.array([0.025, 0.975]))
    low, high = np.quantile(
        means, ndtr(bias + ends / (1 - ends * (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)))
    )
    return float(low), float(high)


def family(slices: int, queries: int, trials: int) -> float:
    """Share of trials in which Holm's correction finds harm in a slice, and none is harmed.

    Differences rise and fall alike around the margin, the nearest to harm that is none.
    """
    case, rng = steps("no harm", 0.2, 0.2), np.random.default_rng(SEED)
    alarms = 0
    for start in range(0, trials, AT_ONCE):
        count = min(AT_ONCE, trials - start)
        p_values = [
            sign_flip_each(
                case.draw(rng, (queries, count)) - MARGIN,
                shift=-MARGIN,
                alternative="less",
                resamples=RESAMPLES,
                seed=SEED + start + at,
                clusters=None,
            )
            for at in range(slices)
        ]
        alarms += sum(
            bool((holm.adjusted(np.array(each)) <= 1 - CONFIDENCE).any())
            for each in zip(*p_values, strict=True)
        )
    return alarms / trials


def non_inferiority(queries: int, trials: int, truth: float = -MARGIN) -> float:
    """Share of PASSes of the real gate where the mean difference is ``truth``."""
    case, rng = losing(-truth), np.random.default_rng((SEED, queries))
    settings = non_inferior.Settings(measure="nDCG@10", margin=MARGIN, min_queries=20)
    passed = 0
    for trial in range(trials):
        evidence = evidence_of(case.draw(rng, (queries,)))
        rules = Rules(CONFIDENCE, RESAMPLES // 2, SEED + trial, power=0.8)
        passed += non_inferior.judge("Q", settings, evidence, rules).verdict is Verdict.PASS
    return passed / trials


def evidence_of(differences: Floats) -> Evidence:
    """Two arms that answered everything, with these differences of nDCG@10."""
    ids = tuple(f"q{at}" for at in range(len(differences)))
    control = side("control", ids, np.maximum(0.0, -differences))
    candidate = side("candidate", ids, np.maximum(0.0, differences))
    agreement = Agreement((), (), {})
    return Evidence("made", control, candidate, agreement, agreement, {}, {}, {}, None)


def side(arm: str, ids: tuple[str, ...], values: Floats) -> Side:
    """One arm; nobody looks at its hits."""
    manifest = Manifest(arm, "1", 1, "made", arm)
    hit = (Hit("d", 1.0, 1.0),)
    run = Run.of(arm, [Row(ids[0], Status.ANSWERED, hit, manifest.fingerprint)])
    return Side(arm, manifest, run, {"nDCG@10": Scores("nDCG@10", ids, values, {})})


def peeking(case: Case, streams: int, looks: int) -> tuple[float, float]:
    """Shares of streams that are promoted falsely at any look, by betting and by looking.

    The mean is the bound itself, so every promotion is false. Betting promotes once its lower end
    lies above; looking promotes once the usual 95 % interval of the mean does, from the 30th
    value on.
    """
    rng, stakes = np.random.default_rng(SEED), Stakes(CONFIDENCE, streams)
    mean = np.array([(case.mean + 1) / 2])
    capital, bet, looked = np.zeros(streams), np.zeros(streams, bool), np.zeros(streams, bool)
    total, squares = np.zeros(streams), np.zeros(streams)
    for look in range(1, looks + 1):
        values = (case.draw(rng, (streams,)) + 1) / 2
        capital += gains(stakes.next(), values, mean)[0]
        bet |= capital >= math.log(stakes.wealth)
        stakes.learn(values)
        total += values
        squares += values**2
        if look >= 30:  # noqa: PLR2004  said above
            seen = total / look
            reach = 1.959964 * np.sqrt(np.maximum(squares / look - seen**2, 0) / look)
            looked |= seen - reach > mean
    return float(bet.mean()), float(looked.mean())


def live(rule: str, streams: int, looks: int) -> tuple[float, float, float]:
    """Shares of streams that a gate on live traffic ever passes, and that it fails, on its bound.

    The last is the share that it passes well within. Each stream is looked at once, after the last
    pair: an end that is beyond the bound stays there, so it tells whether any look passed; and
    what failed at any look fails at every later one.
    """
    found = registry.load(rule)
    settings: Any = found.settings.model_validate(LIVE[rule])
    rules = Rules(CONFIDENCE, RESAMPLES, SEED, power=0.8)
    limit, upwards = settings.limit, settings.passes == "above"
    rng, passed, failed = np.random.default_rng(SEED), [0, 0], [0, 0]
    within = limit + (1 - limit) / 2 if upwards else limit / 4
    for at, mean in enumerate((limit, within)):
        for _ in range(streams):
            ones = rng.random(looks) < mean
            traffic = Traffic(
                attempted=looks,
                passed_over={},
                failed=ones,
                failures={},
                overlap={10: ones.astype(np.float64)},
                control_ns=np.full(looks, 1_000),
                candidate_ns=np.where(ones, 3_000, 1_000),
                since="",
                until="",
            )
            evidence = replace(evidence_of(np.zeros(2)), traffic=traffic)
            verdict = found.judge("L", settings, evidence, rules).verdict
            ends = anytime(settings.values(traffic), confidence=CONFIDENCE, least=0, most=1)
            passed[at] += ends.low > limit if upwards else ends.high < limit
            failed[at] += verdict is Verdict.FAIL
    return passed[0] / streams, failed[0] / streams, passed[1] / streams


def chained(queries: int, trials: int) -> float:
    """Share of trials in which any of three chained stages is promoted wrongly, at its worst.

    A stage is at its bound or far above it, in every combination; the stages share queries.
    """
    case = losing(MARGIN)
    worst = 0.0
    for truth in range(8):
        good = np.array([truth & 1, truth & 2, truth & 4], dtype=bool)
        rng, wrong = np.random.default_rng((SEED, truth)), 0
        for start in range(0, trials, AT_ONCE):
            count = min(AT_ONCE, trials - start)
            values = case.draw(rng, (queries, count, 3))
            alike = rng.choice([True, False], (queries, count, 1))
            values[:, :, 1:] = np.where(alike, values[:, :, :1], values[:, :, 1:])
            found = bca_each(
                (values + 0.3 * good).reshape(queries, -1),
                confidence=CONFIDENCE,
                resamples=RESAMPLES // 2,
                seed=SEED + start,
                clusters=None,
            )
            passed = np.array([each.low > -MARGIN + TOUCH for each in found]).reshape(count, 3)
            promoted = np.logical_and.accumulate(passed, axis=1)
            wrong += int((promoted & ~good).any(axis=1).sum())
        worst = max(worst, wrong / trials)
    return worst


def clinging(percent: float, phi: float, times: int, trials: int) -> tuple[float, float]:
    """Share of intervals of a percentile that hold it, and of series that have an interval.

    Logarithms of the times are AR(1) with coefficient ``phi``.
    """
    truth = 1e6 * math.exp(0.3 * float(ndtri(percent / 100)))
    found = [
        series_interval((1e6 * np.exp(0.3 * row)).astype(np.int64), percent, confidence=CONFIDENCE)
        for row in series(phi, times, trials)
    ]
    given = [each for each in found if each is not None]
    held = [each.low <= truth <= each.high for each in given]
    return float(np.mean(held)) if held else math.nan, len(given) / trials


def stationary(percent: float, phi: float, times: int, trials: int) -> float:
    """Share of intervals of the stationary bootstrap that hold the percentile.

    Politis and Romano, JASA 89 (1994); blocks of ``times ** (1/3)`` on average, 400 draws.
    """
    rng, places = np.random.default_rng(SEED), np.arange(times)
    truth, held = float(ndtri(percent / 100)), 0
    for row in series(phi, times, trials):
        fresh = rng.random((400, times)) < times ** (-1 / 3)
        fresh[:, 0] = True
        begun = np.maximum.accumulate(np.where(fresh, places, 0), axis=1)
        starts = np.take_along_axis(rng.integers(0, times, (400, times)), begun, axis=1)
        drawn = np.percentile(row[(starts + places - begun) % times], percent, axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        held += bool(low <= truth <= high)
    return held / trials


def series(phi: float, times: int, trials: int) -> Floats:
    """AR(1) with coefficient ``phi``, mean 0 and variance 1, shape (trials, times)."""
    fresh = np.random.default_rng(SEED).normal(size=(trials, times + 200))
    level: Floats = lfilter([math.sqrt(1 - phi**2)], [1, -phi], fresh, axis=1)[:, 200:]
    return level


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
