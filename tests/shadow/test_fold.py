"""Gates over a log: noise is seldom flagged, and a planted fault is found."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from harness.core.engine import Answer
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.shadow.pair import Attempt, ServedQuery
from harness.shadow.record import AGREED, LoggedAnswer, Observation
from harness.shadow.recorder import judged
from harness.stats.sequential import BettingSequence
from tests.shadow.arms import MANIFEST, hits

pytestmark = pytest.mark.slow
PRINT = MANIFEST.fingerprint
G = PRINT[:16]
REPLAYS, QUERIES = 200, 100
DROPS = 0.3
"""How often an arm of the A/A comparison does not show its second document."""
NOISE = 1 - DROPS * (1 - DROPS)
"""Mean Jaccard@k of two such arms: one of them drops it, the other does not, and half is shared."""


def live(shown: list[tuple[str, str]]) -> list[Observation]:
    """Compare pairs of lists, given by their letters, in batches."""
    made = []
    for number, (control, candidate) in enumerate(shown, start=1):
        served = ServedQuery("q", 10, {}, Answer(hits(control), PRINT), "", 1, G)
        side = LoggedAnswer(Status.ANSWERED, hits(candidate), PRINT, "", "", 1, G, G)
        made.append(Attempt(number, number, 1, served, lambda: G, side, G))
    return judged(made, writer="w", persistence=0.9, slices=None).observations


def sure(values: Iterable[float]) -> Estimate:
    sequence = BettingSequence(confidence=0.95, least=0, most=1)
    for value in values:
        sequence.update(value)
    return sequence.interval()


def differing(observations: Iterable[Observation]) -> Estimate:
    return sure(float(one.outcome not in AGREED) for one in observations)


def test_two_arms_alike_are_flagged_in_at_most_a_twentieth_of_the_replays() -> None:
    flagged = 0
    for seed in range(REPLAYS):
        rng = random.Random(seed)
        shown = [
            ("a" if rng.random() < DROPS else "ab", "a" if rng.random() < DROPS else "ab")
            for _ in range(QUERIES)
        ]
        estimate = sure(one.jaccard for one in live(shown) if one.jaccard is not None)
        flagged += not estimate.low <= NOISE <= estimate.high
    assert flagged <= REPLAYS * 0.05


@pytest.mark.parametrize("seed", range(2))
def test_a_planted_divergence_of_one_in_a_hundred_is_found(seed: int) -> None:
    rng = random.Random(seed)
    planted = [("ab", "ba" if rng.random() < 0.01 else "ab") for _ in range(2_000)]
    estimate = differing(live(planted))
    assert 0 < estimate.low < 0.01 < estimate.high < 0.03
    alike = differing(live([("ab", "ab")] * 2_000))
    assert alike.low == 0 < alike.high < 0.005
