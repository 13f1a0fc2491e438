"""Alarms on change: the first window of the traffic against each later one.

Windows are of one size and do not overlap; the first is what later ones are compared with. Where
nothing has changed, which of two windows a value fell into is chance. So shuffling values
between them gives the p-value (Good, "Permutation, Parametric and Bootstrap Tests of Hypotheses",
3rd ed., section 3.2). A steady traffic raises the alarm in at most a share of ``p_value`` of its
windows: one in a thousand, where that is 0.001. An alarm needs a change that is also large, for in
a large window chance alone explains nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.core.scores import Estimate
from harness.shadow.log.record import Observation
from harness.shadow.watch.alarms import Alarm, State, answer_of
from harness.shadow.watch.bounds import MixBound, ScoresBound, Watched

SHUFFLED = 1 << 20
"""Values shuffled at once."""
UNNAMED = "(no slice)"
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Change:
    """By how much two windows differ, and how often chance alone does as much."""

    size: float
    p_value: float


class Windows(Generic[Value]):
    """Cuts a stream of values into windows, and keeps the first and the one that fills."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._first: tuple[Value, ...] = ()
        self._filling: list[Value] = []
        self.later = 0
        """Windows that were held against the first."""

    def take(self, value: Value) -> tuple[tuple[Value, ...], tuple[Value, ...]] | None:
        """Give the first window and a later one, when that is full."""
        self._filling.append(value)
        if len(self._filling) < self._size:
            return None
        full = tuple(self._filling)
        self._filling.clear()
        if not self._first:
            self._first = full
            return None
        self.later += 1
        return self._first, full

    @property
    def lacking(self) -> int:
        """Values until the next comparison."""
        whole = self._size if self._first else 2 * self._size
        return whole - len(self._filling)


class Latest:
    """What the comparison of the latest window says, and how many have raised the alarm."""

    def __init__(self, bound: float, p_value: float) -> None:
        self._bound, self._p_value = bound, p_value
        self._change: Change | None = None
        self._raised = False
        self._times = 0
        self._since: int | None = None

    def take(self, change: Change, number: int) -> None:
        """Take the comparison that attempt ``number`` completed."""
        self._change = change
        self._raised = change.size > self._bound and change.p_value <= self._p_value
        self._times += self._raised
        if self._raised and self._since is None:
            self._since = number

    def alarm(self, name: str, arm: str, about: str, windows: Windows[Value]) -> Alarm:
        """Say how things stand."""
        if self._change is None:
            note = f"{windows.lacking} more until two windows can be compared"
            return Alarm(name, arm, State.EARLY, about, None, self._bound, None, note)
        size = self._change.size
        note = f"p {self._change.p_value:.4f}; raised by {self._times} of {windows.later} windows"
        state = State.RAISED if self._raised else State.QUIET
        estimate = Estimate(size, size, size, windows.later)
        return Alarm(name, arm, state, about, estimate, self._bound, self._since, note)


class Scores:
    """The first scores of an arm are not what they were: they fell, rose, or became all alike.

    Native scores, whose scale and sign differ from engine to engine, so only their order counts.
    """

    def __init__(self, arm: str, bound: ScoresBound, watch: Watched) -> None:
        self._arm, self._watch = arm, watch
        self._windows: Windows[float] = Windows(bound.window)
        self._latest = Latest(bound.max_distance, bound.p_value)

    def see(self, observation: Observation) -> None:
        """Take one attempt; what found nothing has no score."""
        seen = answer_of(observation, self._arm)
        if seen is None or seen.top_raw is None:
            return
        if (pair := self._windows.take(seen.top_raw)) is not None:
            seed = self._watch.seed, self._windows.later
            change = gap(*map(np.asarray, pair), seed=seed, resamples=self._watch.resamples)
            self._latest.take(change, observation.number)

    def alarm(self) -> Alarm:
        """Say how things stand."""
        about = "distance of the distribution of first native scores from the first window"
        return self._latest.alarm("scores", self._arm, about, self._windows)


class Mix:
    """People ask for other things: the slices of a later window against the first."""

    def __init__(self, bound: MixBound, watch: Watched) -> None:
        self._watch = watch
        self._windows: Windows[str] = Windows(bound.window)
        self._latest = Latest(bound.max_distance, bound.p_value)

    def see(self, observation: Observation) -> None:
        """Take one attempt, compared or not."""
        named = " + ".join(sorted(observation.slices)) or UNNAMED
        if (pair := self._windows.take(named)) is not None:
            seed = self._watch.seed, self._windows.later
            change = distance(*pair, seed=seed, resamples=self._watch.resamples)
            self._latest.take(change, observation.number)

    def alarm(self) -> Alarm:
        """Say how things stand."""
        about = "Jensen-Shannon divergence of the mix of slices from the first window"
        return self._latest.alarm("mix", "", about, self._windows)


def gap(
    first: NDArray[np.float64],
    later: NDArray[np.float64],
    *,
    seed: tuple[int, int],
    resamples: int,
) -> Change:
    """Largest gap between the distributions of two samples (values,), against shuffled ones.

    The statistic of Kolmogorov and Smirnov for two samples, between 0 and 1 (Conover, "Practical
    Nonparametric Statistics", 3rd ed., section 6.3), which looks at nothing but the order.
    """
    values = np.concatenate([first, later])
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    step = np.where(np.arange(len(values)) < len(first), 1 / len(first), -1 / len(later))
    found = float(_gaps(step[order][None], ends)[0])
    generator = np.random.default_rng(seed)
    at_once = max(1, SHUFFLED // len(values))
    as_large = 0
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        shuffled = generator.permuted(np.tile(step, (rows, 1)), axis=1)
        as_large += _count(_gaps(shuffled, ends), found)
    return Change(found, (as_large + 1) / (resamples + 1))


def _gaps(steps: NDArray[np.float64], ends: NDArray[np.intp]) -> NDArray[np.float64]:
    """Largest gap of each row, shapes (rows, values) to (rows,); ties are passed at once."""
    found: NDArray[np.float64] = np.abs(np.cumsum(steps, axis=1)[:, ends]).max(axis=1)
    return found


def distance(
    first: tuple[str, ...], later: tuple[str, ...], *, seed: tuple[int, int], resamples: int
) -> Change:
    """Jensen-Shannon divergence of two samples of names, to base 2, against shuffled ones.

    Lin, "Divergence measures based on the Shannon entropy", IEEE Transactions on Information
    Theory 37 (1991). Shuffled counts are multivariate hypergeometric.
    """
    counts = Counter(first), Counter(later)
    names = sorted(counts[0] | counts[1])
    ours, theirs = (np.array([[count[name] for name in names]]) for count in counts)
    found = float(_divergence(ours, theirs)[0])
    generator = np.random.default_rng(seed)
    whole = (ours + theirs)[0]
    drawn = generator.multivariate_hypergeometric(whole, len(first), size=resamples)
    as_large = _count(_divergence(drawn, whole - drawn), found)
    return Change(found, (as_large + 1) / (resamples + 1))


def _count(drawn: NDArray[np.float64], found: float) -> int:
    """Count the draws that are as large; equal sums in another order differ by rounding."""
    return int((drawn >= found - 1e-12 * max(1.0, abs(found))).sum())


def _divergence(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
    """Divergence of the counts of each row, shapes (rows, names) to (rows,)."""
    p, q = (counts / counts.sum(axis=1, keepdims=True) for counts in (a, b))
    middle = (p + q) / 2
    parts = [
        np.where(one > 0, one * np.log2(np.where(one > 0, one, 1) / middle), 0.0) for one in (p, q)
    ]
    found: NDArray[np.float64] = (parts[0] + parts[1]).sum(axis=1) / 2
    return found
