"""The candidate may differ from the control by no more than a margin, up or down."""

from __future__ import annotations

from typing import ClassVar

from harness.core.evidence import Evidence
from harness.core.gate import Finding
from harness.gates.base.completions import Bound
from harness.gates.base.differences import judge_mean
from harness.gates.base.queries import SampleSettings
from harness.gates.base.rules import Margin, Rules, Where


class EquivalentSettings(SampleSettings):
    """The mean of candidate - control must lie between -``margin`` and ``margin``."""

    passes: ClassVar[Where] = "within"
    bounded_by: ClassVar[str] = "margin"
    margin: Margin

    @property
    def bound(self) -> str:
        return f"differs by less than {self.margin:g} of {self.where}"


def judge(name: str, settings: EquivalentSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the whole interval lies within the margin on both sides.

    These are Schuirmann's two one-sided tests (1987); the p-value is the larger of the two. A
    PASS must also hold with each lost query counted as -1, and with each counted as +1.
    """
    return judge_mean(name, settings, evidence, rules, bound=Bound(settings.margin, both=True))
