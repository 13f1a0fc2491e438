"""What it costs that queries come in clusters: the design effect of a mean over them.

Kish, "Survey Sampling" (1965), section 5.4. The variance of the mean with whole clusters as its
units, over the variance that it had if every query were a unit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.core.clusters import Dependence
from harness.core.errors import EvidenceError
from harness.stats.bootstrap import by_cluster


def dependence(values: NDArray[np.float64], clusters: NDArray[np.int64] | None) -> Dependence:
    """Weigh the clusters of ``values``; both have shape (queries,), None where all stand alone.

    Values without spread say nothing about their clusters; the design effect is then the worst:
    that of clusters whose queries are one and the same.

    Raises:
        EvidenceError: values are missing.
    """
    if not len(values):
        raise EvidenceError("no value came; nothing may be said of how much many are worth")
    sums, sizes = by_cluster(values, clusters)
    largest, worst = int(sizes.max()), float((sizes**2).sum() / len(values))
    mean = float(values.mean())
    alone, together = ((values - mean) ** 2).sum(), ((sums - sizes * mean) ** 2).sum()
    units = len(sums)
    if np.ptp(values) == 0 or units == 1:
        return Dependence(len(values), units, largest, worst)
    effect = (together * units / (units - 1)) / (alone * len(values) / (len(values) - 1))
    return Dependence(len(values), units, largest, float(effect))
