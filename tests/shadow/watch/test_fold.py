"""Gates over a log: noise is seldom flagged, and a planted fault is found."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from harness.agreement import Class
from harness.core.engine import Answer
from harness.core.errors import EvidenceError
from harness.core.run import Status
from harness.shadow.counts import differing, failures, overlaps, slower, sure
from harness.shadow.pair import Attempt, Pair, Served
from harness.shadow.record import LoggedAnswer, Observation, Seen
from harness.shadow.recorder import judged
from tests.make.shadow.records import SEEN, observation
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
        served = Served("q", 10, {}, Answer(hits(control), PRINT), "", 1, G)
        side = LoggedAnswer(Status.ANSWERED, hits(candidate), PRINT, "", "", 1, G, G)
        made.append(Pair(Attempt(number, number, 1, served, lambda: G), side, G))
    return judged(made, writer="w", persistence=0.9, slices=None).observations


def test_two_arms_alike_are_flagged_in_at_most_a_twentieth_of_the_replays() -> None:
    flagged = 0
    for seed in range(REPLAYS):
        rng = random.Random(seed)
        shown = [
            ("a" if rng.random() < DROPS else "ab", "a" if rng.random() < DROPS else "ab")
            for _ in range(QUERIES)
        ]
        estimate = sure(overlaps(live(shown)), 0.95)
        assert estimate is not None
        flagged += not estimate.low <= NOISE <= estimate.high
    assert flagged <= REPLAYS * 0.05


@pytest.mark.parametrize("seed", range(2))
def test_a_planted_divergence_of_one_in_a_hundred_is_found(seed: int) -> None:
    rng = random.Random(seed)
    planted = [("ab", "ba" if rng.random() < 0.01 else "ab") for _ in range(2_000)]
    estimate = sure(differing(live(planted)), 0.95)
    assert estimate is not None
    assert 0 < estimate.low < 0.01 < estimate.high < 0.03
    alike = sure(differing(live([("ab", "ab")] * 2_000)), 0.95)
    assert alike is not None
    assert alike.low == 0 < alike.high < 0.005


LATE = replace(SEEN, status=Status.TIMED_OUT)
FAILED = replace(SEEN, status=Status.FAILED)


def ended(control: Seen | None, candidate: Seen | None, outcome: Class) -> Observation:
    return observation(
        outcome=outcome, control=control, candidate=candidate, jaccard=None, rbo=None
    )


TRAFFIC = [
    observation(jaccard=0.5, outcome=Class.OVERLAP),
    observation(outcome=Class.BOTH_EMPTY, jaccard=None),
    observation(outcome=Class.TIE_ORDER),
    ended(SEEN, FAILED, Class.ERROR),
    ended(SEEN, LATE, Class.TIMEOUT),
    ended(FAILED, SEEN, Class.ERROR),
    ended(FAILED, FAILED, Class.ERROR),
    ended(SEEN, None, Class.SHED),
    ended(SEEN, None, Class.SKIPPED),
]


def test_each_mean_is_of_the_attempts_that_have_a_value() -> None:
    assert list(overlaps(TRAFFIC)) == [0.5, 1.0]
    assert list(differing(TRAFFIC)) == [1, 0, 1]
    assert list(failures(TRAFFIC)) == [0, 0, 0, 1, 1]


def test_what_is_slower_is_so_beyond_the_ratio() -> None:
    times = [
        observation(candidate=replace(SEEN, elapsed_ns=elapsed)) for elapsed in (999, 2_000, 2_001)
    ]
    assert list(slower([*times, *TRAFFIC[3:]], 2)) == [0, 0, 1]


def test_nothing_is_sure_of_no_value() -> None:
    assert sure([], 0.95) is None
    with pytest.raises(EvidenceError, match="confidence"):
        sure([1.0], 1.0)
