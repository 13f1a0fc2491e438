"""What one gate is expected to be judged on, and the number of queries that follows from it.

Each forecast has a power as its only argument: how sure the gate is to pass where the truth is as
it is assumed to be.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

from harness.core.clusters import codes
from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.printable import counted
from harness.gates.agreement_floor import Settings as FloorSettings
from harness.gates.base.paired import Comparison
from harness.gates.base.queries import checked, in_slice
from harness.gates.base.rules import Rules
from harness.gates.base.sampled import known_span
from harness.gates.base.shares import ShareSettings
from harness.policy.model import Gate
from harness.stats.bounded import Span
from harness.stats.sample_size.design_effect import dependence
from harness.stats.sample_size.planning import (
    Codes,
    Floats,
    Target,
    assumed,
    planned,
    planned_share,
)
from harness.stats.sample_size.power import Pilot


class Forecast(Protocol):
    """The truth that is assumed of one gate, and what it would take."""

    @property
    @abstractmethod
    def said(self) -> str:
        """What is assumed, in words."""

    @abstractmethod
    def queries(self, rules: Rules, power: float) -> int | None:
        """Count the queries that pass the gate with ``power``; None where no number does."""


@dataclass(frozen=True, slots=True, eq=False)
class MeanForecast:
    """A mean whose values spread as those of a pilot, or as they are assumed to."""

    values: Floats
    """Shape (queries,)."""
    clusters: Codes | None
    span: Span
    wanted: Target
    spread_known: bool
    """Whether the spread is assumed, and not that of a pilot."""
    said: str

    @classmethod
    def of_pilot(cls, compared: Comparison, wanted: Target) -> MeanForecast:
        """Take the spread and the clusters of differences that were seen."""
        values = compared.paired.difference
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        effect = dependence(values, compared.known).design_effect
        said = (
            f"{_truth(wanted)}, spread {spread:.3f} per query and design effect {effect:.2f} as in"
            f" {counted(len(values), 'query')} of the pilot"
        )
        return cls(values, compared.known, compared.span, wanted, spread_known=False, said=said)

    @classmethod
    def of_spread(cls, spread: float, wanted: Target, span: Span) -> MeanForecast:
        """Assume a standard deviation of the differences.

        Raises:
            EvidenceError: no differences have it.
        """
        values = assumed(spread, truth=wanted.truth, span=span)
        said = f"{_truth(wanted)}, spread {spread:g} per query as assumed"
        return cls(values, None, span, wanted, spread_known=True, said=said)

    @classmethod
    def of_agreement(cls, settings: FloorSettings, evidence: Evidence) -> MeanForecast:
        """Take agreement as it was seen, with its mean.

        Raises:
            EvidenceError: it was not computed, or for no query.
        """
        every = checked(evidence.agreement.scores, settings.measure, "agreement")
        scores = in_slice(every, evidence, settings.slice)
        if scores.mean is None:
            raise EvidenceError(f"the pilot has no value of {settings.where}")
        wanted = Target(scores.mean, settings.floor)
        groups, span = codes(scores.query_ids, evidence.clusters), known_span(settings.measure)
        said = f"mean {scores.mean:.4f} as in {counted(len(scores.values), 'query')} of the pilot"
        return cls(scores.values, groups, span, wanted, spread_known=False, said=said)

    def decides(self, rules: Rules, queries: int) -> tuple[float, float] | None:
        """Give the measured means from which so many queries pass, and below which they fail.

        The queries differ as those in ``values``. None where the mean has a bound on both sides.
        """
        if self.wanted.both_sides or not queries:
            return None
        pilot = Pilot.of(
            self.values, span=self.span, clusters=self.clusters, largest=rules.largest_cluster
        )
        up, down = (pilot.bounded(queries, rules.level / 2, upwards=at) for at in (False, True))
        return self.wanted.bound + up, self.wanted.bound - down

    def queries(self, rules: Rules, power: float) -> int | None:
        """Plan with the interval that decides."""
        return planned(
            self.values,
            self.wanted,
            span=self.span,
            confidence=rules.confidence,
            power=power,
            clusters=self.clusters,
            largest=rules.largest_cluster,
            known=self.spread_known,
        )


@dataclass(frozen=True, slots=True)
class ShareForecast:
    """A share of queries that something bad happens to."""

    rate: float
    ceiling: float

    @classmethod
    def of_pilot(
        cls, gate: Gate, settings: ShareSettings, evidence: Evidence, rules: Rules
    ) -> ShareForecast:
        """Take the share that the gate itself counted in a pilot."""
        found = gate.judge(evidence, rules).estimate
        if found is None:
            raise EvidenceError("the pilot has no query")
        return cls(found.value, settings.max_share)

    @property
    def said(self) -> str:
        """What is assumed, in words."""
        return f"a share of {self.rate:.2%}"

    def queries(self, rules: Rules, power: float) -> int | None:
        """Plan with the exact interval of a share."""
        return planned_share(
            self.rate, ceiling=self.ceiling, confidence=rules.confidence, power=power
        )


def _truth(wanted: Target) -> str:
    return f"a true gain of {wanted.truth:g}" if wanted.truth else "no true difference"
