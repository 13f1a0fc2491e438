"""A policy planned: how many queries each gate needs, what is at hand, and what is lacking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.evidence import Evidence
from harness.gates.base.rules import Rules
from harness.policy.model import Gate, Policy, Step
from harness.policy.plan.at_hand import AtHand
from harness.policy.plan.forecast import MeanForecast
from harness.policy.plan.need import Assumed, Need
from harness.policy.plan.needs import needs


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """One need of one gate, in numbers."""

    gate: Gate
    need: Need
    alone: int | None
    """Queries with which this passes with the policy's power; None where it is not planned."""
    together: int | None
    """Queries with which all gates of the step pass with that power, if each has so many."""

    def decides(self, rules: Rules) -> tuple[float, float] | None:
        """Give the measured means from which the queries at hand pass, and below which they fail.

        None without a pilot of a mean, or without queries.
        """
        forecast, have = self.need.forecast, self.need.have
        if not isinstance(forecast, MeanForecast) or have is None:
            return None
        return forecast.decides(rules, have.queries)

    @property
    def queries(self) -> int:
        """Queries to plan with: for all gates together where that is known."""
        return max(self.need.least, self.together or 0)

    @property
    def impossible(self) -> bool:
        """Whether no number of queries passes it where the truth is as assumed."""
        return self.need.forecast is not None and self.alone is None

    @property
    def lacks(self) -> int:
        """Queries that are not at hand; 0 where no query set is."""
        have = self.need.have
        if have is None:
            return 0
        count = have.independent if self.need.independent else have.queries
        return max(0, self.queries - count, self.need.least - have.independent)

    @property
    def lacks_processes(self) -> int:
        """Processes that the race at hand is short of; 0 where none is at hand."""
        return max(0, self.need.processes - self.need.raced) if self.need.have else 0


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep:
    """One step with all that it needs."""

    step: Step
    needs: tuple[Planned, ...]

    @property
    def lacking(self) -> tuple[str, ...]:
        """Say what is not at hand: of each kind of query as many as its largest need asks for."""
        most: dict[str, int] = {}
        for one in self.needs:
            for count, of in ((one.lacks, one.need.of), (one.lacks_processes, "processes")):
                most[of] = max(count, most.get(of, 0))
        return tuple(f"{count:,} {of}" for of, count in most.items() if count)


def plan(
    policy: Policy,
    at_hand: AtHand | None,
    pilots: Mapping[str, Evidence],
    assume: Assumed = Assumed(),  # noqa: B008  a tuple of nothing
) -> tuple[PlannedStep, ...]:
    """Plan every step; ``pilots`` is evidence by step, for those that have some.

    For m gates to pass together with a given power, each may fail with probability (1 - power) / m
    (Bonferroni). So their correlations need not be known.

    Raises:
        EvidenceError: the spread that is assumed cannot be.
    """
    return tuple(
        _step(policy, step, at_hand, pilots.get(step.name), assume) for step in policy.steps
    )


def _step(
    policy: Policy, step: Step, at_hand: AtHand | None, pilot: Evidence | None, assume: Assumed
) -> PlannedStep:
    rules = policy.rules
    found = [
        (gate, need) for gate in step.gates for need in needs(gate, rules, at_hand, pilot, assume)
    ]
    many = max(1, sum(need.forecast is not None for _, need in found))
    each = 1 - (1 - rules.power) / many
    planned = tuple(
        Planned(
            gate,
            need,
            need.forecast.queries(rules, rules.power) if need.forecast else None,
            need.forecast.queries(rules, each) if need.forecast else None,
        )
        for gate, need in found
    )
    return PlannedStep(step, planned)
