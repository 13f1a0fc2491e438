"""A budget in milliseconds for one machine; times of another machine are scaled."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.core.gate import Cause
from harness.gates.base.rules import MOST_RATIO, GateSettings, Milliseconds, Where
from harness.gates.base.timing import Hindrance

NS_PER_MS = 1_000_000


class BudgetSettings(GateSettings):
    """A time of the candidate must lie below ``max_ms`` milliseconds.

    The budget is for a machine that does the reference work in ``reference_ms``. Times of another
    machine are scaled by its time for that work, by a factor of at most ``max_scale``.
    """

    max_ms: Milliseconds
    reference_ms: Milliseconds
    max_scale: Annotated[float, Field(ge=1, le=MOST_RATIO)]

    @property
    def passes(self) -> Where:
        return "below"

    @property
    def limit(self) -> float:
        return self.max_ms

    @property
    def unit(self) -> str:
        return "ms"

    def scale(self, reference_ns: NDArray[np.int64]) -> float:
        """Ratio of the reference work's time to that on the machine of the budget."""
        return float(np.median(reference_ns)) / (self.reference_ms * NS_PER_MS)

    def unlike(self, reference_ns: NDArray[np.int64], machine: str) -> Hindrance | None:
        """Give the hindrance if the machine is too different from that of the budget, else None."""
        scale = self.scale(reference_ns)
        if 1 / self.max_scale <= scale <= self.max_scale:
            return None
        return Hindrance(
            Cause.MACHINE,
            f"the reference work took {scale:.3g} times as long as on the machine of the budget,"
            f" further from 1 than a factor of {self.max_scale:g}: {machine}",
            "measure on a machine more like that of the budget, or state the budget for this one",
        )
