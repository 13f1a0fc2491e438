"""The candidate may not lose more than a margin of a measure."""

from __future__ import annotations

from typing import ClassVar

from harness.core.evidence import Evidence
from harness.core.gate import Finding
from harness.gates.base.completions import Bound
from harness.gates.base.differences import LookSettings, judge_mean
from harness.gates.base.rules import Margin, Rules, Where


class NonInferiorSettings(LookSettings):
    """The mean of candidate - control must lie above -``margin``."""

    passes: ClassVar[Where] = "above"
    margin: Margin

    @property
    def bound(self) -> str:
        return f"loses less than {self.margin:g} of {self.where}{self.at}"

    @property
    def limit(self) -> float:
        return -self.margin


def judge(name: str, settings: NonInferiorSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where even the low end of the interval loses less than the margin.

    The p-value tests "the loss is the margin" against "it is smaller".
    """
    return judge_mean(name, settings, evidence, rules, bound=Bound(settings.limit))
