"""Results of a selftest: error rates of gates under known truth, and the gates they convict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.core.gate import Cause, Finding, Verdict
from harness.core.scores import Estimate

REMEDY = (
    "judge more queries (harness plan says how many this gate needs), or correct the rule;"
    " then run harness selftest again"
)


@dataclass(frozen=True, slots=True)
class Planted:
    """How often a gate passed where a loss of exactly its bound was planted."""

    pattern: str
    """How the loss was spread over the queries, in words."""
    promoted: Estimate
    """Share of the trials with PASS: the false-promotion rate."""
    assumed: bool = False
    """Whether the pattern violates a stated assumption of the gate; then it does not convict."""


@dataclass(frozen=True, slots=True)
class OperatingCharacteristic:
    """One gate on quality, and how often it was wrong."""

    step: str
    gate: str
    what: str
    """Measure and slice."""
    queries: int
    limit: float
    planted: tuple[Planted, ...]
    """One entry a pattern of loss, the truth the gate's limit in each; without those that the
    scores of the arms leave no room for."""
    false_hold: Estimate | None
    """Share without PASS where the candidate is as good as the control (for a gain: twice it)."""
    smallest_loss: float | None
    """What this query set shows as a loss with the policy's power."""
    seen: Estimate | None
    """Share of planted losses of that size that were seen."""

    @property
    def worst(self) -> Planted | None:
        """The pattern under which the gate passed most often; None where none could be planted."""
        kept = [one for one in self.planted if not one.assumed]
        return max(kept, key=lambda one: one.promoted.value, default=None)

    @property
    def false_promote(self) -> Estimate | None:
        """False-promotion rate under the worst pattern."""
        return self.worst.promoted if self.worst else None

    def convicted(self, level: float) -> Planted | None:
        """Give the worst pattern whose rate surely exceeds ``level``; None where none does."""
        surely = [one for one in self.planted if one.promoted.low > level and not one.assumed]
        return max(surely, key=lambda one: one.promoted.low, default=None)


@dataclass(frozen=True, slots=True)
class Point:
    """How often a whole step was promoted under one truth."""

    times: float
    """The planted loss (or gain) as a multiple of the bound of the gate that it reaches first."""
    truth: float
    """The same as a mean difference of that gate's measure."""
    promoted: Estimate
    """Share of the trials in which every gate on means passed."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The operating curve of a step: all its gates on means together, for the queries at hand."""

    step: str
    gate: str
    """The gate whose bound the planted loss reaches first; of gains, last."""
    what: str
    """Its measure and slice."""
    gates: int
    """How many gates take part; the others are taken to pass."""
    points: tuple[Point, ...]


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
    """False-promotion rate that the policy's confidence allows a gate."""
    power: float
    gates: tuple[OperatingCharacteristic, ...]
    nulls: tuple[Null, ...]
    curves: tuple[Curve, ...] = ()

    @property
    def convicted(self) -> tuple[OperatingCharacteristic, ...]:
        """Gates whose measured false-promotion rate has a lower end above the level."""
        return tuple(gate for gate in self.gates if gate.convicted(self.level))

    @property
    def valid(self) -> bool:
        """Whether no gate is convicted, and every null model came out as it should."""
        return not self.convicted and all(null.as_it_should for null in self.nulls)

    def untried(self, steps: Iterable[str]) -> tuple[str, ...]:
        """Name the steps where null models were not tested, because no gate is on quality."""
        tried = {null.step for null in self.nulls}
        return tuple(step for step in steps if step not in tried)

    def of(self, step: str, gate: str) -> OperatingCharacteristic | None:
        """Give what was measured of one gate; None where it was not tried."""
        found = (one for one in self.gates if (one.step, one.gate) == (step, gate))
        return next(found, None)

    def curve(self, step: str) -> Curve | None:
        """Give the operating curve of a step; None where it has no gate on means."""
        return next((curve for curve in self.curves if curve.step == step), None)

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
        gates=tuple(_gate(one) for one in value["gates"]),
        nulls=tuple(Null(**one) for one in value["nulls"]),
        curves=tuple(_curve(one) for one in value["curves"]),
    )


def _gate(one: Mapping[str, Any]) -> OperatingCharacteristic:
    planted = tuple(
        Planted(**{**it, "promoted": Estimate(**it["promoted"])}) for it in one["planted"]
    )
    rates = {name: _rate(one[name]) for name in ("false_hold", "seen")}
    return OperatingCharacteristic(**{**one, **rates, "planted": planted})


def _curve(one: Mapping[str, Any]) -> Curve:
    points = tuple(Point(**{**it, "promoted": Estimate(**it["promoted"])}) for it in one["points"])
    return Curve(**{**one, "points": points})


def _rate(value: Mapping[str, Any] | None) -> Estimate | None:
    return None if value is None else Estimate(**value)


def believed(finding: Finding, step: str, selftest: Selftest | None) -> Finding:
    """Give ``finding``, INCONCLUSIVE where it is a PASS and the selftest convicts its gate.

    A gate is convicted where its measured false-promotion rate has a lower end above the level,
    or where an engine that knows nothing passed it, or the control failed it. A FAIL stands.
    """
    if selftest is None or finding.verdict is not Verdict.PASS:
        return finding
    why = _wrong(finding.gate, step, selftest)
    if not why:
        return finding
    return replace(
        finding,
        verdict=Verdict.INCONCLUSIVE,
        cause=Cause.SELFTEST,
        reason=f"{finding.reason}; but the selftest convicts this gate: {why}",
        remedy=REMEDY,
    )


def _wrong(gate: str, step: str, selftest: Selftest) -> str:
    """Say what the selftest has against a gate; empty where nothing."""
    tried = selftest.of(step, gate)
    if tried and (worst := tried.convicted(selftest.level)):
        return (
            f"it passed in {rate(worst.promoted)} of {worst.promoted.n} trials whose loss was its"
            f" bound ({worst.pattern}); {100 * selftest.level:g} % is allowed"
        )
    for null in selftest.nulls:
        if null.step == step and gate in null.verdicts and not null.as_it_should:
            said = ", ".join(f"{name}: {verdict}" for name, verdict in null.verdicts.items())
            return f"with {null.model} as the candidate the gates said {said}"
    return ""


def rate(estimate: Estimate) -> str:
    """Write a share of trials with its interval."""
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f} %, {100 * estimate.high:.1f} %]"
