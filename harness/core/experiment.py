"""One experiment on a data set, as the log keeps it: what was done, and all that it rested on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Clocked = Literal["race", "race begun", "race resumed", "load"]
Kind = Literal["gate", "decide"] | Clocked
"""A race is noted before its first process, before it goes on after a stop, and at its end."""
Setting = str | int | float | bool
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Inputs(_Kept):
    """What an experiment rested on, by digest."""

    corpus: Sha256
    queries: Sha256
    qrels: Sha256
    inventory: Sha256
    """Of ``harness.corpus.inventory``, which is kept beside the log."""
    runs: dict[str, Sha256]
    """By arm."""
    shown: dict[str, Sha256] = Field(default_factory=dict)
    """Of what each arm showed, by arm: the same whatever the arm is called."""
    times: Sha256 | None
    """Of the race; None where there is none."""
    load: Sha256 | None = None
    """Of the load test; None where there is none, or the policy does not look at it."""
    policy: Sha256 | None
    """Of the policy's file; None for a race or a load test."""
    code: Sha256
    seeds: dict[str, int]
    """By what was drawn: ``policy`` (gates), ``race``."""


class Looked(_Kept):
    """One step, as a gate stage judged it."""

    step: str
    control: str
    candidate: str
    outcome: str
    untimed: Sha256 | None
    """Of the untimed gates, their bounds, seed and evidence; None where there is no such gate."""
    timed: Sha256 | None
    """The same of the gates on a race or a load test."""


class Experiment(_Kept):
    """One line of the log."""

    format: Literal[1] = 1
    number: Annotated[int, Field(ge=1)]
    previous: Sha256
    """Digest of the line before; zeros for the first."""
    kind: Kind
    """``decide`` judges by another policy and leaves no decision."""
    at: AwareDatetime
    policy: str
    """Its name; empty where nothing was judged."""
    inputs: Inputs
    steps: tuple[Looked, ...]
    decision: Sha256 | None
    """Of ``decision.json``, where there is one."""
