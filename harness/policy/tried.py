"""What a selftest found: how often gates are wrong where the truth is known, and who must lose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.core.scores import Estimate

RATES = ("false_promote", "false_hold", "seen")


@dataclass(frozen=True, slots=True)
class Tried:
    """One gate on quality, and how often it was wrong."""

    step: str
    gate: str
    what: str
    """Measure and slice."""
    queries: int
    limit: float
    false_promote: Estimate | None
    """Share of PASS where the candidate is exactly as bad as the gate forbids."""
    false_hold: Estimate | None
    """Share without PASS where the candidate is as good as the control (for a gain: twice it)."""
    smallest_loss: float | None
    """What this query set shows as a loss with the policy's power."""
    seen: Estimate | None
    """Share of planted losses of that size that were seen."""


@dataclass(frozen=True, slots=True)
class Null:
    """An engine that knows nothing, or the control, in the place of the candidate."""

    step: str
    model: str
    verdicts: dict[str, str]
    """By gate."""
    as_it_should: bool
    """The control itself fails no margin; the others fail somewhere and pass nowhere."""


@dataclass(frozen=True, slots=True)
class Selftest:
    """What the harness can see on one data set."""

    dataset: str
    policy: str
    seed: int
    trials: int
    level: float
    """False promotes that the policy's confidence allows."""
    power: float
    gates: tuple[Tried, ...]
    nulls: tuple[Null, ...]

    @property
    def valid(self) -> bool:
        """Whether no engine passes that knows nothing, and the control is no loss to itself."""
        return all(null.as_it_should for null in self.nulls)

    def of(self, step: str, gate: str) -> Tried | None:
        """Give what was found of one gate; None where it was not tried."""
        found = (one for one in self.gates if (one.step, one.gate) == (step, gate))
        return next(found, None)

    def written(self) -> dict[str, Any]:
        """Give it as values that JSON can hold, which ``from_written`` takes back."""
        return asdict(self)


def from_written(value: Mapping[str, Any]) -> Selftest:
    """Take back what ``Selftest.written`` gave.

    Raises:
        KeyError, TypeError: it is something else.
    """
    rest = {key: value[key] for key in ("dataset", "policy", "seed", "trials", "level", "power")}
    return Selftest(
        **rest,
        gates=tuple(
            Tried(**{**one, **{rate: one[rate] and Estimate(**one[rate]) for rate in RATES}})
            for one in value["gates"]
        ),
        nulls=tuple(Null(**one) for one in value["nulls"]),
    )
