"""One experiment on a data set, as a line of the log: what was done, on which inputs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.json_models import Moment

Clocked = Literal["race", "race begun", "race resumed", "load"]
Kind = Literal["gate", "decide"] | Clocked
"""A race is logged before its first process, when it resumes after a stop, and at its end."""
Setting = str | int | float | bool
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Inputs(_Kept):
    """The inputs of an experiment, by digest."""

    corpus: Sha256
    queries: Sha256
    qrels: Sha256
    inventory: Sha256
    """Of ``harness.corpus.inventory``, which is kept beside the log."""
    runs: dict[str, Sha256]
    """By arm."""
    shown: dict[str, Sha256] = Field(default_factory=dict)
    """Digest of each arm's rankings, by arm: independent of the arm's name."""
    manifests: dict[str, Sha256] = Field(default_factory=dict)
    """Digest of each arm's manifest, by arm: which engine and settings, on which documents."""
    times: Sha256 | None
    """Of the race; None without one."""
    load: Sha256 | None = None
    """Of the load test; None without one, or if the policy does not use it."""
    policy: Sha256 | None
    """Of the policy's file; None for a race or a load test."""
    code: Sha256
    seeds: dict[str, int]
    """By what was drawn: ``policy`` (gates), ``race``."""


class Looked(_Kept):
    """One step, as it was judged."""

    step: str
    control: str
    candidate: str
    outcome: str
    level: Annotated[float, Field(gt=0, lt=1)]
    """One-sided level at which each gate was judged."""
    untimed: Sha256 | None
    """Digest of the evidence of untimed gates; None without such a gate, or unmeasured."""
    timed: Sha256 | None
    """The same of the gates on a race or a load test."""


class Experiment(_Kept):
    """One line of the log."""

    format: Literal[2] = 2
    number: Annotated[int, Field(ge=1)]
    previous: Sha256
    """Digest of the line before; zeros for the first."""
    kind: Kind
    """``decide`` judges by another policy and leaves no decision."""
    at: Moment
    policy: str
    """Name of the policy; empty if nothing was judged."""
    inputs: Inputs
    steps: tuple[Looked, ...]
    decision: Sha256 | None
    """Digest of ``decision.json``, if one was written."""
