"""What is watched in live traffic, and beyond which bound somebody is told.

The values of ``policy/watch.toml``. Nothing here has a default: each bound stands in that file with
its reason.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.stats.inference import MOST_CONFIDENCE

MOST = 1_000_000
"""Largest number of a bound."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Watched(_Table):
    """How sure, and what counts as slow."""

    confidence: float = Field(gt=0.5, le=MOST_CONFIDENCE)
    """Of every confidence sequence, two-sided."""
    slow_ratio: float = Field(gt=1, le=MOST)
    """A pair is slow where the candidate took more than so many times the control's time."""
    seed: int = Field(ge=0)
    """Of the permutations."""
    resamples: int = Field(ge=99, le=MOST)
    """Permutations of each comparison of two windows."""


class EmptyBound(_Table):
    """How much more often than the control the candidate may find nothing."""

    max_excess: float = Field(ge=0, lt=1)


class DuplicatesBound(_Table):
    """In which share of an arm's answers a document may be shown twice."""

    max_share: float = Field(ge=0, lt=1)


class ChurnBound(_Table):
    """How often an arm may answer a repeated query otherwise while its index stands still."""

    max_share: float = Field(ge=0, lt=1)
    remember: int = Field(ge=1, le=MOST)
    """Queries of each arm whose last answer is kept; those asked longest ago are forgotten."""


class ScoresBound(_Table):
    """How far an arm's first scores may move from the first window to a later one."""

    window: int = Field(ge=20, le=MOST)
    """Answers with a hit in each window."""
    max_distance: float = Field(ge=0, le=1)
    """Largest gap between the two distributions."""
    p_value: float = Field(gt=0, lt=0.5)


class MixBound(_Table):
    """How far the mix of slices may move from the first window to a later one."""

    window: int = Field(ge=20, le=MOST)
    """Attempts in each window."""
    max_distance: float = Field(ge=0, le=1)
    """Jensen-Shannon divergence to base 2."""
    p_value: float = Field(gt=0, lt=0.5)


class Alarms(_Table):
    """The tables ``[alarm.*]``."""

    empty: EmptyBound
    duplicates: DuplicatesBound
    churn: ChurnBound
    scores: ScoresBound
    mix: MixBound


class Bounds(_Table):
    """The whole file."""

    watch: Watched
    alarm: Alarms
