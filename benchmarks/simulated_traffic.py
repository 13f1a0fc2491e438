"""How often what may be asked at any time is wrong at any time, while pairs come in."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.simulated_differences import CONFIDENCE, RESAMPLES, SEED, Case, Floats, evidence_of
from harness.core.evidence import Traffic
from harness.core.gate import Verdict
from harness.gates.base import registry
from harness.gates.base.rules import Rules
from harness.stats.anytime import anytime
from harness.stats.betting import Stakes, gains

LIVE: dict[str, dict[str, float]] = {
    "anytime_overlap": {"k": 10, "floor": 0.8, "min_pairs": 50},
    "anytime_failures": {"max_share": 0.05, "min_pairs": 50},
    "anytime_slow": {"max_ratio": 2.0, "max_share": 0.05, "min_pairs": 50},
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
