"""What a load hands to its page: every trial, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.scores import Estimate
from harness.replay.load.highest_rate import Highest
from harness.replay.load.histogram import Histogram
from harness.replay.load.record import Record
from harness.replay.load.rounds import Noise


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """All rounds of one arm at one rate."""

    arm: str
    twin: bool
    rate: float | None
    """Arrivals a second; None for a closed loop."""
    records: tuple[Record, ...]
    """Rounds that count."""
    objections: tuple[str, ...]
    """Why others do not, one text a round."""
    response: Mapping[str, Histogram]
    """Response times of all rounds that count, by query class."""
    service: Histogram
    cold: Histogram
    p50: Estimate | None
    """Median over rounds of each round's p50, nanoseconds; None where there are too few."""
    p99: Estimate | None
    ratio: Estimate | None
    """Median over rounds of p99 by the first arm's p99; None where there are too few rounds."""

    @property
    def overall(self) -> Histogram:
        """Response times of all classes."""
        return Histogram.merged(self.response.values())


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """One load."""

    dataset: str
    machine: str
    loaded_at: str
    busy: float
    """Mean share of the processors that others took just before the trials."""
    arms: tuple[str, ...]
    """The first is the reference of the others."""
    workers: str
    about: Mapping[str, str]
    """Settings, in words."""
    points: tuple[Point, ...]
    noise: Mapping[float, Noise]
    """The first arm against itself, by rate."""
    highest: Mapping[str, Highest]
    """Highest rate of each arm; empty where it was not asked for."""
    budget_ns: int | None
    index_bytes: Mapping[str, int]
    command: str

    def point(self, arm: str, rate: float | None, *, twin: bool = False) -> Point | None:
        """Find the trials of an arm at a rate."""
        found = (p for p in self.points if (p.arm, p.rate, p.twin) == (arm, rate, twin))
        return next(found, None)

    @property
    def rates(self) -> tuple[float, ...]:
        """Rates of the trials of all arms, ascending."""
        return tuple(sorted({point.rate for point in self.points if point.rate is not None}))
