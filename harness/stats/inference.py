"""The one statement of how an interval is drawn and how sure it must be."""

from dataclasses import dataclass

from harness.core.errors import HarnessError

MOST_CONFIDENCE = 0.999_999
"""Beyond it an end rests on resamples that hardly ever come, and 1 less it on rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """Confidence, resamples and seed of intervals and tests; nothing has a default.

    Raises:
        HarnessError: the confidence is not between 0 and 1, or ``resamples`` is below 1.
    """

    confidence: float
    """Confidence of two-sided intervals, e.g. 0.95; 1 minus it is the significance level."""
    resamples: int
    """Resamples of bootstrap and randomization test."""
    seed: int
    largest_cluster: float = 0.0
    """Largest share of the queries that one cluster may have, even if none so large was seen."""

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise HarnessError(f"confidence is {self.confidence}; give one between 0 and 1")
        if not 0 <= self.largest_cluster < 1:
            raise HarnessError(f"largest_cluster is {self.largest_cluster}; give a share below 1")
        if self.resamples < 1:
            raise HarnessError(f"resamples is {self.resamples}; give at least 1, better 10000")

    @property
    def level(self) -> float:
        """Significance level: 1 minus the confidence."""
        return 1 - self.confidence
