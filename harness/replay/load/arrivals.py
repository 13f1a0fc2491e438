"""Times and queries of arrivals, drawn before a trial, so that answers do not change them.

People do not wait for each other's answers, so arrivals of many people are a Poisson process.
Gaps between them are exponential and independent of the service (Kleinrock, "Queueing Systems",
vol. 1, section 2.4). Arrivals of a real day, which come in bursts, are read from a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import BadFile, HarnessError, UnknownName
from harness.core.formats import json_of
from harness.core.reading import numbered
from harness.core.records import Query

NS_PER_S = 1_000_000_000
UNSLICED = "all"
"""Class of a query without a slice."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The schedule of one trial."""

    offsets_ns: NDArray[np.int64]
    """Intended starts after the trial's own start, ascending, shape (arrivals,)."""
    picks: NDArray[np.int64]
    """Row in the list of queries of each arrival, shape (arrivals,)."""
    classes: tuple[str, ...]
    """Query class of each arrival."""
    rate: float
    """Arrivals a second that were intended."""

    def __len__(self) -> int:
        return len(self.offsets_ns)


class Mix:
    """Query classes and how often each is drawn.

    With weights a class is drawn by its weight and then one of its queries, each alike; without,
    every query is drawn alike and its class is its first slice.
    """

    def __init__(self, queries: Sequence[Query], weights: Mapping[str, float]) -> None:
        """Check the weights.

        Raises:
            UnknownName: no query has such a slice.
            HarnessError: there is nothing to ask, or a weight is not above 0.
        """
        if not queries:
            raise HarnessError("the data set is empty; prepare a data set that has queries")
        known = sorted({part for query in queries for part in query.slices})
        for name, weight in weights.items():
            if name not in known:
                raise UnknownName("slice", name, known)
            if not (math.isfinite(weight) and weight > 0):
                raise HarnessError(f"the weight of {name} is {weight:g}; give one above 0")
        self._queries = tuple(queries)
        self._names = tuple(weights)
        total = sum(weights.values())
        self._shares = [weight / total for weight in weights.values()]
        self._members = [
            np.flatnonzero([name in query.slices for query in queries]) for name in weights
        ]

    def draw(
        self, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Draw rows of queries, shape (count,), and the class of each."""
        if not self._names:
            picks = rng.integers(len(self._queries), size=count)
            return picks, tuple(self.class_of(self._queries[row]) for row in picks)
        drawn = rng.choice(len(self._names), size=count, p=self._shares)
        within = rng.random(count)
        picks = np.array(
            [
                self._members[name][int(share * len(self._members[name]))]
                for name, share in zip(drawn, within, strict=True)
            ],
            dtype=np.int64,
        )
        return picks, tuple(self._names[name] for name in drawn)

    @staticmethod
    def class_of(query: Query) -> str:
        """Class of a query that was not drawn by its class."""
        return query.slices[0] if query.slices else UNSLICED


def poisson(mix: Mix, rate: float, seconds: float, seed: Sequence[int]) -> Arrivals:
    """Draw the arrivals of ``seconds`` at ``rate`` a second; the same for the same seed.

    Raises:
        HarnessError: the rate or the time is not above 0, or so small that nothing arrives.
    """
    if not (math.isfinite(rate) and rate > 0 and math.isfinite(seconds) and seconds > 0):
        raise HarnessError(f"{rate:g} arrivals a second for {seconds:g} s: both must be above 0")
    rng = np.random.default_rng(list(seed))
    expected = rate * seconds
    gaps = rng.exponential(1 / rate, size=math.ceil(expected + 10 * math.sqrt(expected) + 10))
    starts = np.cumsum(gaps)
    starts = starts[starts < seconds]
    if not len(starts):
        raise HarnessError(f"nothing arrives in {seconds:g} s at {rate:g} a second; try longer")
    picks, classes = mix.draw(len(starts), rng)
    return Arrivals((starts * NS_PER_S).astype(np.int64), picks, classes, rate)


def recorded(path: Path, queries: Sequence[Query]) -> Arrivals:
    """Read arrivals from JSON lines ``{"at_s": 0.25, "query_id": "q1"}``, in order of time.

    Times are seconds after the first midnight or any other start; the first one becomes 0.

    Raises:
        BadFile: it is missing, a line is not an arrival, time runs backwards, a query is unknown,
            or there are not two arrivals.
    """
    hint = 'Each line is {"at_s": SECONDS, "query_id": "ID"}, in order of time'
    rows = {query.query_id: row for row, query in enumerate(queries)}
    starts: list[float] = []
    picks: list[int] = []
    for number, line in numbered(path):
        try:
            arrival = json_of(line)
            at_s, query_id = float(arrival["at_s"]), arrival["query_id"]
        except (ValueError, KeyError, TypeError) as exc:
            raise BadFile(path, f"no arrival ({exc})", hint, number) from exc
        if not math.isfinite(at_s) or (starts and at_s < starts[-1]):
            raise BadFile(path, f"{at_s:g} s comes before the line above", hint, number)
        if not isinstance(query_id, str) or query_id not in rows:
            raise BadFile(path, f"{query_id!r} is not a query of the data set", hint, number)
        starts.append(at_s)
        picks.append(rows[query_id])
    if len(starts) < 2 or starts[-1] == starts[0]:  # noqa: PLR2004  a rate needs two
        raise BadFile(path, f"{len(starts)} arrivals have no rate", hint)
    offsets = ((np.array(starts) - starts[0]) * NS_PER_S).astype(np.int64)
    classes = tuple(Mix.class_of(queries[row]) for row in picks)
    rate = (len(starts) - 1) / (starts[-1] - starts[0])
    return Arrivals(offsets, np.array(picks, dtype=np.int64), classes, rate)
