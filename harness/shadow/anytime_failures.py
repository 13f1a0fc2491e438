"""On live traffic, the candidate may rarely fail."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.core.evidence import Traffic
from harness.shadow.live import RareSettings, judge_live


class Settings(RareSettings):
    """The share of live queries that the candidate does not answer must lie below ``max_share``.

    An answer of another engine in the candidate's place counts as missing; an empty answer counts
    as an answer.
    """

    befalls: ClassVar[str] = "go unanswered"

    def befell(self, traffic: Traffic) -> NDArray[np.bool_]:
        return traffic.failed

    def at_ns(self, traffic: Traffic) -> NDArray[np.int64]:
        return traffic.failed_at

    def said(self, traffic: Traffic) -> str:
        ways = ", ".join(f"{count} {how}" for how, count in sorted(traffic.failures.items()))
        return "share that the candidate did not answer" + (f" ({ways})" if ways else "")


judge = judge_live
