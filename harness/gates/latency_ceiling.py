"""The candidate must answer within a budget in milliseconds."""

from __future__ import annotations

from harness.core.evidence import Evidence, Race
from harness.core.printable import counted
from harness.core.scores import Estimate
from harness.gates.base.rules import plain
from harness.gates.base.times import (
    NS_PER_MS,
    BudgetSettings,
    Hindrance,
    TimedSettings,
    Times,
    judge_times,
)
from harness.stats.times import percentile


class LatencyCeilingSettings(BudgetSettings, TimedSettings):
    """A percentile of the candidate's first answers must lie below ``max_ms`` milliseconds."""

    @property
    def bound(self) -> str:
        return (
            f"{self.percent} below {self.max_ms:g} ms where the reference work takes"
            f" {self.reference_ms:g} ms"
        )

    def hindered(self, race: Race) -> Hindrance | None:
        return self.unlike(race.reference_ns, race.machine)

    def measured(self, race: Race, times: Times, evidence: Evidence, confidence: float) -> Estimate:
        here = percentile(times[evidence.candidate.arm], self.number, confidence=confidence)
        in_ms = NS_PER_MS * self.scale(race.reference_ns)
        return Estimate(here.value / in_ms, here.low / in_ms, here.high / in_ms, here.n)

    def said(self, race: Race, found: Estimate, evidence: Evidence) -> str:
        by = self.scale(race.reference_ns)
        return (
            f"{self.percent} of {evidence.candidate.arm} {plain(found)} ms over"
            f" {counted(evidence.candidate.manifest.documents, 'document')}; budget scaled to"
            f" {self.max_ms * by:.3g} ms: this CPU runs the reference {1 / by:.3g} times as fast"
        )


judge = judge_times
