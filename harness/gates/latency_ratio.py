"""The candidate's time over the control's must lie below a ratio, in one race."""

from __future__ import annotations

from typing import ClassVar

from harness.core.evidence import Evidence, Race
from harness.core.scores import Estimate
from harness.gates.base.rules import Ratio, Where, plain
from harness.gates.base.times import TimedSettings, Times, judge_times
from harness.stats.times import fewest_for, ratio, slowdown


class LatencyRatioSettings(TimedSettings):
    """The candidate's percentile over the control's must lie below ``max_ratio``.

    With ``per_query`` it is the percentile of the ratios of each query's two times. So ``p99``
    bounds the share of queries that take more than ``max_ratio`` times as long: below 1 %.
    """

    passes: ClassVar[Where] = "below"
    bounded_by: ClassVar[str] = "max_ratio"
    unit: ClassVar[str] = "ratio"
    max_ratio: Ratio
    per_query: bool = False

    @property
    def bound(self) -> str:
        what = "the control's time for the same query" if self.per_query else "the control's"
        return f"{self.percent} latency below {self.max_ratio:g} times {what}"

    def fewest(self, confidence: float) -> int:
        return fewest_for(self.number, confidence, arms=1 if self.per_query else 2)

    def measured(
        self,
        race: Race,  # noqa: ARG002  a budget is scaled by it
        times: Times,
        evidence: Evidence,
        confidence: float,
    ) -> Estimate:
        of = slowdown if self.per_query else ratio
        arms = times[evidence.candidate.arm], times[evidence.control.arm]
        return of(*arms, self.number, confidence=confidence)

    def said(self, race: Race, found: Estimate, evidence: Evidence) -> str:  # noqa: ARG002  the same
        candidate, control = evidence.candidate.arm, evidence.control.arm
        if self.per_query:
            return f"{self.percent} over queries of {candidate} over {control} {plain(found)}"
        return f"{self.percent} latency of {candidate} over {control} {plain(found)}"


judge = judge_times
