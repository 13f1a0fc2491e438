"""On live traffic, the candidate may rarely be much slower than the control."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.core.evidence import Traffic
from harness.gates.base.rules import Ratio
from harness.shadow.live import RareSettings, judge_live


class Settings(RareSettings):
    """The share of pairs beyond ``max_ratio`` times the control's time, below ``max_share``.

    Each arm has its own clock. An abandoned candidate counts with the time until it was abandoned,
    which is less than it would have taken.
    """

    max_ratio: Ratio

    @property
    def befalls(self) -> str:
        return f"take more than {self.max_ratio:g} times the control's time"

    def befell(self, traffic: Traffic) -> NDArray[np.bool_]:
        slow: NDArray[np.bool_] = traffic.candidate_ns > self.max_ratio * traffic.control_ns
        return slow

    def at_ns(self, traffic: Traffic) -> NDArray[np.int64]:
        return traffic.timed_at

    def said(self, traffic: Traffic) -> str:  # noqa: ARG002  every live gate is asked alike
        return f"share beyond {self.max_ratio:g} times the control's time"


judge = judge_live
