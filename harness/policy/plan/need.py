"""What one gate needs before it can pass, and what is assumed where that is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from harness.policy.plan.at_hand import Counted
from harness.policy.plan.forecast import Forecast


class Assumed(NamedTuple):
    """What the planner takes to be true."""

    gain: float | None = None
    """Where a gate asks for a gain."""
    spread: float | None = None
    """Standard deviation of a query's difference, without a pilot."""


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What one gate, or one slice of it, needs."""

    of: str
    """What is counted."""
    means: str = ""
    """The bound in what people see."""
    least: int = 0
    """Independent ones without which it cannot pass; 0 where its rule counts none."""
    have: Counted | None = None
    """None where no query set is at hand."""
    forecast: Forecast | None = None
    processes: int = 0
    """Of a race; 0 where none is timed."""
    raced: int = 0
    """Processes of the race at hand."""
    independent: bool = False
    """Whether independent queries are planned, and not queries like those of the pilot."""
    equal: tuple[tuple[float, int], ...] = ()
    """Queries that pass an equal candidate, by the share of queries that it moves."""
    note: str = ""
    """Why nothing more is planned; empty where all is."""
