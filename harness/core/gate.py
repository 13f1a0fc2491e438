"""What a gate may say, and what a step's gates say together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.core.scores import Estimate


class Verdict(StrEnum):
    """The outcome of a gate. There is no default and no truth value."""

    PASS = "pass"  # noqa: S105  a verdict, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"

    def __bool__(self) -> bool:
        """Refuse: INCONCLUSIVE is neither true nor false."""
        raise TypeError("compare a Verdict with `is`; INCONCLUSIVE is neither true nor false")


class Outcome(StrEnum):
    """What may be done about a step (method, section 6)."""

    PROMOTE = "promote"
    HOLD = "hold"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class Finding:
    """One gate's verdict with the number and the bound that it rests on."""

    gate: str
    """Name of the gate as the policy writes it, unique within a step."""
    rule: str
    """Module of ``harness.gates`` that judged."""
    verdict: Verdict
    reason: str
    """One sentence that a person can check against the numbers."""
    bound: str
    """The bound in words and numbers, e.g. ``loses less than 0.02``."""
    estimate: Estimate | None
    """What was measured; None where there was nothing to measure."""
    limit: float | None
    """The bound as a number on the estimate's scale, for drawing."""
    unit: str
    """Of estimate and limit, e.g. ``nDCG@10``, ``ratio``, ``share``."""
    settle: str = ""
    """What would settle an INCONCLUSIVE; empty otherwise."""
    p_value: float | None = None
    timed: bool = False
    """Rests on a clock, so it differs from one day to the next."""


@dataclass(frozen=True, slots=True)
class StepDecision:
    """All findings of one step of a migration, and what follows from them."""

    step: str
    control: str
    candidate: str
    taken: bool
    """Whether the step was taken already; then a FAIL means ROLLBACK."""
    findings: tuple[Finding, ...]
    waits_for: str = ""
    """An earlier step that is neither taken nor promoted; empty where the way is free."""
    accepted_by: str = ""
    """SHA-256 of the decision that put the control in its place; empty where none is named."""

    @property
    def verdict(self) -> Verdict:
        """FAIL if any gate fails, else INCONCLUSIVE if any is or there is none, else PASS."""
        said = {finding.verdict for finding in self.findings}
        for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            if verdict in said:
                return verdict
        return Verdict.PASS if said else Verdict.INCONCLUSIVE

    @property
    def outcome(self) -> Outcome:
        """PROMOTE, HOLD or ROLLBACK."""
        if self.verdict is Verdict.FAIL:
            return Outcome.ROLLBACK if self.taken else Outcome.HOLD
        if self.verdict is Verdict.PASS and not self.waits_for:
            return Outcome.PROMOTE
        return Outcome.HOLD

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Findings that stand in the way, failures first."""
        held = [f for f in self.findings if f.verdict is not Verdict.PASS]
        return tuple(sorted(held, key=lambda f: f.verdict is not Verdict.FAIL))
