"""How often what may be asked at any time is wrong at any time, while pairs come in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtri

from benchmarks.simulated_differences import CONFIDENCE, RESAMPLES, SEED, Case, Floats, evidence_of
from harness.core.evidence import Traffic
from harness.core.gate import Verdict
from harness.gates.base import registry
from harness.gates.base.rules import Rules
from harness.stats.sequential.anytime import anytime
from harness.stats.sequential.betting import Stakes, gains

Bad = NDArray[np.bool_]
Stream = Callable[[np.random.Generator, float, int], Bad]
LIVE: dict[str, dict[str, float]] = {
    "anytime_overlap": {"k": 10, "floor": 0.8, "min_pairs": 50, "block_pairs": 1, "block_s": 0},
    "anytime_failures": {"max_share": 0.05, "min_pairs": 50, "block_pairs": 1, "block_s": 0},
    "anytime_slow": {
        "max_ratio": 2.0,
        "max_share": 0.05,
        "min_pairs": 50,
        "block_pairs": 1,
        "block_s": 0,
    },
}


def ones(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One value in a hundred is 1, as failures are."""
    return rng.binomial(1, 0.01, shape).astype(np.float64)


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


def independent(rng: np.random.Generator, share: float, pairs: int) -> Bad:
    """Each pair is bad by itself."""
    return rng.random(pairs) < share


def bursts(rng: np.random.Generator, share: float, pairs: int, length: int = 5) -> Bad:
    """Pairs are bad in rows of exactly so many; the gaps between them have no memory."""
    start = share / length / (1 - share + share / length)
    found, at = np.zeros(pairs + length, dtype=bool), 0
    while at < pairs:
        at += int(rng.geometric(start)) - 1
        found[at : at + length] = True
        at += length
    return found[:pairs]


def markov(rng: np.random.Generator, share: float, pairs: int, length: int = 5) -> Bad:
    """Pairs are bad in rows of so many on average, of any length."""
    leave = 1 / length
    enter = share * leave / (1 - share)
    found, at, bad = np.zeros(pairs, dtype=bool), 0, bool(rng.random() < share)
    while at < pairs:
        row = int(rng.geometric(leave if bad else enter))
        found[at : at + row] = bad
        at, bad = at + row, not bad
    return found


def clinging(rng: np.random.Generator, share: float, pairs: int, phi: float = 0.9) -> Bad:
    """Pairs are bad while an AR(1) series is low."""
    steps = rng.normal(size=pairs)
    steps[1:] *= math.sqrt(1 - phi**2)
    return np.asarray(lfilter([1.0], [1.0, -phi], steps) < ndtri(share))


STREAMS: dict[str, Stream] = {
    "independent": independent,
    "bursts of 5": bursts,
    "Markov, 5 on average": markov,
    "Markov, 20 on average": partial(markov, length=20),
    "AR(1), 0.5": partial(clinging, phi=0.5),
    "AR(1), 0.9": clinging,
}
"""Ways in which pairs may be bad, by their words."""


class Judged(NamedTuple):
    """Shares of streams."""

    passed: float
    """That pass at any look, whatever may be seen of their blocks."""
    failed: float
    """That fail at any look."""
    passing: float
    """That pass at the last look."""


def live(  # noqa: PLR0917  what a stream is made of
    rule: str, stream: Stream, mean: float, streams: int, pairs: int, block_pairs: int = 1
) -> Judged:
    """Judge streams in which so many pairs are bad, on average, by a gate on live traffic.

    Each stream is looked at once, after the last pair: an end that is beyond the bound stays there,
    so it tells whether any look passed; and what failed at any look fails at every later one.
    """
    found = registry.load(rule)
    settings: Any = found.settings.model_validate({**LIVE[rule], "block_pairs": block_pairs})
    rules = Rules(confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED, power=0.8)
    limit, upwards = settings.limit, settings.passes == "above"
    rng, counts = np.random.default_rng(SEED), np.zeros(3)
    for _ in range(streams):
        bad = stream(rng, mean, pairs)
        evidence = replace(evidence_of(np.zeros(2)), traffic=traffic(bad))
        verdict = found.judge("L", settings, evidence, rules).verdict
        means = settings.blocks(evidence.traffic).means
        ends = anytime(means, confidence=CONFIDENCE, least=0, most=1)
        counts += (
            ends.low > limit if upwards else ends.high < limit,
            verdict is Verdict.FAIL,
            verdict is Verdict.PASS,
        )
    return Judged(*(counts / streams).tolist())


def bound(rule: str) -> float:
    """Share of bad pairs that is exactly on the bound of a rule in ``LIVE``."""
    settings: Any = registry.load(rule).settings.model_validate(LIVE[rule])
    return float(1 - settings.limit if settings.passes == "above" else settings.limit)


def traffic(bad: Bad) -> Traffic:
    """Give pairs of which some are bad in the sense of every rule, one a second."""
    at = np.arange(len(bad)) * 1_000_000_000
    return Traffic(
        attempted=len(bad),
        passed_over={},
        asked=np.ones(len(bad), dtype=np.int64),
        failed=bad,
        failed_at=at,
        failures={},
        overlap={10: (1.0 - bad).astype(np.float64)},
        overlap_at={10: at},
        control_ns=np.full(len(bad), 1_000),
        candidate_ns=np.where(bad, 3_000, 1_000),
        timed_at=at,
        since="",
        until="",
    )
