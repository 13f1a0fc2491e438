"""On live traffic, both arms must show mostly the same documents."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.core.evidence import Traffic
from harness.gates.base.rules import Depth, Share, Where
from harness.shadow.live import Floats, LiveSettings, judge_live


class Settings(LiveSettings):
    """The mean of Jaccard@``k`` over live queries must lie above ``floor``.

    Pairs of which both lists are empty have no Jaccard and do not count.
    """

    passes: ClassVar[Where] = "above"
    bounded_by: ClassVar[str] = "floor"
    k: Depth
    floor: Share

    @property
    def bound(self) -> str:
        return f"mean {self.unit} of live queries above {self.floor:g}"

    @property
    def unit(self) -> str:
        return f"Jaccard@{self.k}"

    def values(self, traffic: Traffic) -> Floats:
        return traffic.overlap.get(self.k, np.empty(0))

    def at_ns(self, traffic: Traffic) -> NDArray[np.int64]:
        return traffic.overlap_at.get(self.k, np.empty(0, dtype=np.int64))

    def said(self, traffic: Traffic) -> str:
        others = ", ".join(str(k) for k in sorted(traffic.overlap) if k != self.k)
        return f"mean {self.unit}" + (f" (the log also has k of {others})" if others else "")


judge = judge_live
