"""Values of the queries that have one; no number stands for the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """What one kernel of agreement found."""

    defined: NDArray[np.bool_]
    """Shape (queries,): whether the query has a value."""
    values: NDArray[np.float64]
    """Shape (defined queries,): theirs, in order."""

    @classmethod
    def ratio(
        cls, top: NDArray[np.float64] | NDArray[np.int64], bottom: NDArray[np.float64]
    ) -> Partial:
        """``top / bottom``, undefined where ``bottom`` is 0; both of shape (queries,)."""
        defined = bottom > 0
        return cls(defined, top[defined] / bottom[defined])
