"""On live traffic, the candidate may rarely be much slower than the control."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from harness.core.evidence import Evidence, Traffic
from harness.core.gate import Finding
from harness.gates.base.live import Floats, LiveSettings, judge_live
from harness.gates.base.rules import Rules, Share, Where


class Settings(LiveSettings):
    """The share of pairs beyond ``max_ratio`` times the control's time, below ``max_share``."""

    max_ratio: Annotated[float, Field(gt=0)]
    max_share: Share

    @property
    def bound(self) -> str:
        return (
            f"fewer than {self.max_share:.2%} of the live queries take more than"
            f" {self.max_ratio:g} times the control's time"
        )

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
        slow = traffic.candidate_ns > self.max_ratio * traffic.control_ns
        return slow.astype(np.float64)

    def said(self, traffic: Traffic) -> str:  # noqa: ARG002  every live gate is asked alike
        return f"share beyond {self.max_ratio:g} times the control's time"


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the confidence sequence of the share lies below the ceiling.

    Each arm has its own clock. A candidate that was given up counts with the time after which it
    was, which is less than it would have taken.
    """
    return judge_live(name, settings, evidence, rules)
