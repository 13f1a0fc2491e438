"""How often live traffic whose mean is the bound passes, at the end of any period."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_differences import CONFIDENCE, SEED, Case, Floats
from harness.stats.sequential.betting import Stakes, gains
from harness.stats.sequential.blocks import NS_PER_S, blocks

DAY_S, HOUR_S, MIN_PERIODS = 86_400, 3_600, 2
Ints = NDArray[np.int64]


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
        bet |= capital >= np.log(stakes.wealth)
        stakes.learn(values)
        total += values
        squares += values**2
        if look >= 30:  # noqa: PLR2004  said above
            seen = total / look
            reach = 1.959964 * np.sqrt(np.maximum(squares / look - seen**2, 0) / look)
            looked |= seen - reach > mean
    return float(bet.mean()), float(looked.mean())


class Course(NamedTuple):
    """How live traffic fails, in seconds, and how much of it there is."""

    share: float
    """Of the pairs that fail, in the mean of a day."""
    swing: float = 0.0
    """Of the share: 1 where nothing fails for half a day and twice as much in the other half."""
    outage_s: tuple[float, float] = (0.0, 0.0)
    """Least and greatest length of an outage, in which all fail; failures are single without."""
    pairs_s: float = 0.05
    """Pairs a second, in the mean."""
    tide: float = 0.0
    """Of the pairs: by how much more come in the half of the day in which more fail."""
    drift: float = 0.0
    """Of the share: how much more fail on the last day than in the mean, and less on the first."""
    start_s: float = 0.0
    """When the log begins: the quiet half of the day begins at 0."""


BOUND, DAYS = 0.05, 6
COURSES: dict[str, Course] = {
    "single failures": Course(BOUND),
    "none at night, twice as many by day": Course(BOUND, swing=1.0),
    "the same, a log that begins at night's end": Course(BOUND, swing=1.0, start_s=DAY_S / 2),
    "the same, nine times the pairs by day": Course(BOUND, swing=1.0, tide=0.8),
    "outages of 10 to 30 minutes": Course(BOUND, outage_s=(600, 1_800)),
    "outages of 30 minutes": Course(BOUND, outage_s=(1_800, 1_801)),
    "more from day to day": Course(BOUND, drift=0.9),
    "single failures, a quarter of the bound": Course(BOUND / 4),
    "half of the bound": Course(BOUND / 2),
    "outages, a tenth of the bound": Course(BOUND / 10, outage_s=(600, 1_800)),
    "a tenth of the bound, nine times the pairs by day": Course(BOUND / 10, swing=1.0, tide=0.8),
}
"""Live traffic by its words; where not said otherwise, its mean is the bound."""


def stream(rng: np.random.Generator, course: Course, days: int) -> tuple[Floats, Ints]:
    """Draw failures and their times, of so many days and an hour."""
    seconds = days * DAY_S + HOUR_S
    count = rng.poisson(course.pairs_s * seconds * (1 + abs(course.tide)))
    at = np.sort(rng.random(count)) * seconds
    busy = (at + course.start_s) % DAY_S >= DAY_S / 2
    kept = rng.random(count) * (1 + abs(course.tide)) < 1 + course.tide * np.where(busy, 1, -1)
    at, busy = at[kept], busy[kept]
    # the mean over pairs is the share, however many come when
    swing = 1 + course.swing * np.where(busy, 1, -1)
    swing /= 1 + course.swing * course.tide
    swing *= 1 + course.drift * (2 * (at // DAY_S) / max(days - 1, 1) - 1)
    if course.outage_s[1]:
        mean = sum(course.outage_s) / 2
        begins = rng.random(rng.poisson(course.share * seconds / mean)) * seconds
        ends = begins + rng.uniform(*course.outage_s, len(begins))
        bad = np.zeros(len(at), dtype=bool)
        for begin, end in zip(begins, ends, strict=True):
            bad[np.searchsorted(at, begin) : np.searchsorted(at, end)] = True
    else:
        bad = rng.random(len(at)) < course.share * swing
    return bad.astype(np.float64), np.rint(at * NS_PER_S).astype(np.int64)


class Passed(NamedTuple):
    """Shares of the streams."""

    ever: float
    """That pass at the end of any day from the second on."""
    last: float
    """That pass at the last day."""
    failed: float
    """That lie beyond the bound at the end of any day."""


def passed(
    course: Course, days: int, trials: int, *, bound: float, block_s: float = 1_800.0
) -> Passed:
    """Judge streams after each day."""
    rng = np.random.default_rng((SEED, days, round(1e5 * course.share), round(course.outage_s[1])))
    counts = np.zeros(3)
    for _ in range(trials):
        values, at = stream(rng, course, days)
        looks = []
        for day in range(MIN_PERIODS, days + 1):
            until = int(np.searchsorted(at, at[0] + day * DAY_S * NS_PER_S)) + 1
            found = blocks(values[:until], at[:until], block_s=block_s, period_s=DAY_S)
            if found.periods >= MIN_PERIODS:
                looks.append([
                    found.surely(bound, above=above, confidence=CONFIDENCE)
                    for above in (False, True)
                ])
        each = np.array(looks or [(False, False)])
        counts += each[:, 0].any(), each[-1, 0], each[:, 1].any()
    return Passed(*(counts / trials).tolist())
