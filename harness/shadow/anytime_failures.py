"""On live traffic, the candidate may rarely fail."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.core.evidence import Evidence, Traffic
from harness.core.gate import Finding
from harness.gates.base.rules import Rules
from harness.shadow.live import RareSettings, judge_live


class Settings(RareSettings):
    """The share of live queries that the candidate does not answer must lie below ``max_share``."""

    @property
    def befalls(self) -> str:
        return "go unanswered"

    def befell(self, traffic: Traffic) -> NDArray[np.bool_]:
        return traffic.failed

    def at_ns(self, traffic: Traffic) -> NDArray[np.int64]:
        return traffic.failed_at

    def said(self, traffic: Traffic) -> str:
        ways = ", ".join(f"{count} {how}" for how, count in sorted(traffic.failures.items()))
        return "share that the candidate did not answer" + (f" ({ways})" if ways else "")


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the interval of the share lies below the ceiling.

    An answer of another engine in the candidate's place counts as missing; an empty answer counts
    as an answer.
    """
    return judge_live(name, settings, evidence, rules)
