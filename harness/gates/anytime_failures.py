"""On live traffic, the candidate may rarely fail."""

from __future__ import annotations

import numpy as np

from harness.core.evidence import Evidence, Traffic
from harness.core.gate import Finding
from harness.gates.base.live import Floats, LiveSettings, judge_live
from harness.gates.base.rules import Rules, Share, Where


class Settings(LiveSettings):
    """The share of live queries that the candidate does not answer must lie below ``max_share``."""

    max_share: Share

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the live queries go unanswered"

    @property
    def passes(self) -> Where:
        return "below"

    @property
    def limit(self) -> float:
        return self.max_share

    @property
    def unit(self) -> str:
        return "share"

    def values(self, traffic: Traffic) -> Floats:
        return traffic.failed.astype(np.float64)

    def said(self, traffic: Traffic) -> str:
        ways = ", ".join(f"{count} {how}" for how, count in sorted(traffic.failures.items()))
        return "share that the candidate did not answer" + (f" ({ways})" if ways else "")


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the confidence sequence of the share lies below the ceiling.

    An answer of another engine in the candidate's place is none; an empty answer is one.
    """
    return judge_live(name, settings, evidence, rules)
