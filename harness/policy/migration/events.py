"""What happens to a migration, as its ledger keeps it: one frozen value an event."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.gate import Outcome, Verdict
from harness.core.json_models import Moment

Name = Annotated[str, Field(min_length=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Said(_Kept):
    """What a decision says of one step."""

    step: Name
    control: Name
    candidate: Name
    verdict: Verdict
    outcome: Outcome
    waits_for: str
    failed: tuple[str, ...]
    """Gates that fail."""
    open: tuple[str, ...]
    """Gates that are inconclusive."""
    control_setup: Sha256
    """Of engine, version and settings of the control: not of its documents, which grow."""
    candidate_setup: Sha256
    compared: Count
    """Queries that both arms answered."""
    replayed_at: Moment | None
    """When the arms were replayed, the earlier of the two; None if unknown."""


class Decided(_Kept):
    """A decision, as far as a migration rests on it."""

    sha256: Sha256
    """Of the file ``decision.json``."""
    decided_at: Moment
    raced_at: Moment | None
    policy_sha256: Sha256
    steps: tuple[Said, ...]

    def of(self, step: str) -> Said | None:
        """Give what it says of ``step``; None where it does not speak of it."""
        return next((said for said in self.steps if said.step == step), None)

    @property
    def newest(self) -> Moment:
        """The latest of all its times."""
        replays = (said.replayed_at for said in self.steps)
        return max(filter(None, (self.decided_at, self.raced_at, *replays)))

    @property
    def oldest(self) -> Moment:
        """Time of the oldest evidence in it, as far as it tells."""
        replays = (said.replayed_at for said in self.steps)
        return min(filter(None, (self.decided_at, self.raced_at, *replays)))


class Day(_Kept):
    """Control and candidate were compared on a day (UTC)."""

    day: date
    control: Name
    candidate: Name
    pairs: Annotated[int, Field(ge=1)]
    source: Literal["streams", "replay"]
    """A live comparison, or the replay behind a decision."""


class _Event(_Kept):
    at: Moment
    by: Name
    """Who did it."""


class Begun(_Event):
    """The migration begins: nothing is taken yet."""

    kind: Literal["begun"] = "begun"
    policy: Name
    """Name of the policy that it follows."""
    switch: Name
    """Value of the kill switch that leaves the old engine in place."""


class Observed(_Event):
    """Evidence was looked at; nothing else changed."""

    kind: Literal["observed"] = "observed"
    decision: Decided | None
    days: tuple[Day, ...]


class Advanced(_Event):
    """A step was taken."""

    kind: Literal["advanced"] = "advanced"
    step: Name
    switch: Name
    decision: Decided | None
    """What it rests on; None only where it was overridden."""
    overridden: tuple[str, ...] = ()
    """Blocking findings that a person overrode; usually empty."""
    reason: str = ""
    """Why it was set aside."""


class RolledBack(_Event):
    """The last steps were taken back."""

    kind: Literal["rolled_back"] = "rolled_back"
    to: str
    """The step that is in force again; empty for the state before the first."""
    switch: Name
    reason: Name


class Drilled(_Event):
    """The way back was walked, and forth again; a drill that failed stays on the old engine."""

    kind: Literal["drilled"] = "drilled"
    step: Name
    old: Name
    """Value of the switch before the step."""
    new: Name
    passed: bool
    said: Name
    """What was seen, or why it failed."""
    questions: Count
    back_ns: Count
    """From writing the old value to its first own answer; 0 where there was none."""
    forth_ns: Count


class Interleaved(_Event):
    """Users see lists mixed from the rankings of several engines, or no longer do."""

    kind: Literal["interleaved"] = "interleaved"
    arms: tuple[Name, ...]
    """The engine that serves first; empty where mixing ends."""
    reason: Name


Event = Annotated[
    Begun | Observed | Advanced | RolledBack | Drilled | Interleaved, Field(discriminator="kind")
]
