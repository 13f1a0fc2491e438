"""Verdicts of gates, and the outcome of a step."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from harness.core.scores import Estimate


class Verdict(StrEnum):
    """The verdict of a gate. It has no default, and ``bool`` of it raises."""

    PASS = "pass"  # noqa: S105  a verdict, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"

    def __bool__(self) -> bool:
        """Refuse: INCONCLUSIVE is neither true nor false."""
        raise TypeError("compare a Verdict with `is`; INCONCLUSIVE is neither true nor false")


class Outcome(StrEnum):
    """The outcome of a step (method, section 6)."""

    PROMOTE = "promote"
    HOLD = "hold"
    ROLLBACK = "rollback"


class Cause(StrEnum):
    """Why a gate says what it says, for programs; ``Finding.reason`` says it to people."""

    KEPT = "kept"
    BROKEN = "broken"
    OPEN = "interval_holds_bound"
    TOO_FEW = "too_few"
    """Fewer independent queries, pairs or rounds than the gate needs."""
    NO_EVIDENCE = "no_evidence"
    UNANSWERED = "unanswered"
    """It would pass, but not if each unanswered query counts as the worst value."""
    UNJUDGED = "unjudged"
    """Missing judgements could change the verdict."""
    TIES = "ties"
    """The order of hits with equal scores could change the verdict."""
    EMPTY = "passes_with_nothing"
    """It would pass, and so would a candidate that finds nothing, or a copy."""
    IDENTITY = "identity_unknown"
    """Proof of which engine answered is missing."""
    CONTROL = "control_differs_from_itself"
    """The control does not agree with itself either."""
    MACHINE = "machine"
    """The machine was too busy, too noisy or too unlike that of the budget."""
    CACHE = "cache"
    """The times are of cached or stored answers."""
    OFF_CLOCK = "off_the_clock"
    """An arm worked on after its answers, where no clock ran."""
    SAMPLE = "unrepresentative"
    """The observed traffic does not represent all traffic."""
    PINNED = "not_as_pinned"
    """The evidence differs from the pins of the policy."""
    BUDGET = "over_error_budget"
    """The looks together exceed the error budget of the policy."""
    TUNED = "tuned_on_judgements"
    """An arm was tuned on the judgements."""
    PREMISE = "premise_open"
    """A premise is neither checked in the evidence nor declared in the policy, or was refuted."""


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """FAIL if any, else INCONCLUSIVE if any or none at all, else PASS."""
    said = set(verdicts)
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        if verdict in said:
            return verdict
    return Verdict.PASS if said else Verdict.INCONCLUSIVE


OF_VERDICT = {
    Verdict.PASS: Cause.KEPT,
    Verdict.FAIL: Cause.BROKEN,
    Verdict.INCONCLUSIVE: Cause.OPEN,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One gate's verdict with the number and the bound that it rests on."""

    gate: str
    """Name of the gate as the policy writes it, unique within a step."""
    rule: str
    verdict: Verdict
    cause: Cause
    reason: str
    bound: str
    """The bound in words and numbers, e.g. ``loses less than 0.02``."""
    estimate: Estimate | None
    limit: float | None
    """The bound as a number on the estimate's scale, for drawing."""
    unit: str
    """Of estimate and limit, e.g. ``nDCG@10``, ``ratio``, ``share``."""
    remedy: str = ""
    p_value: float | None = None
    timed: bool = False
    """Rests on a clock, so it differs from one day to the next."""

    def __post_init__(self) -> None:
        """Refuse a cause that belongs to another verdict."""
        belongs = {Cause.KEPT: Verdict.PASS, Cause.BROKEN: Verdict.FAIL}
        if self.verdict is not belongs.get(self.cause, Verdict.INCONCLUSIVE):
            raise ValueError(f"{self.gate}: {self.verdict} has the cause {self.cause}")


@dataclass(frozen=True, slots=True)
class StepDecision:
    """All findings of one step of a migration, and what follows from them."""

    step: str
    control: str
    candidate: str
    taken: bool
    """Whether the step was taken already; then a FAIL means ROLLBACK."""
    findings: tuple[Finding, ...]
    blocked_by: str = ""
    """An earlier step that is neither taken nor promoted; empty where the way is free."""
    accepted_by: str = ""
    """SHA-256 of the decision that put the control in its place; empty where none is named."""

    @property
    def verdict(self) -> Verdict:
        """FAIL if any gate fails, else INCONCLUSIVE if any is or there is none, else PASS."""
        return together(finding.verdict for finding in self.findings)

    @property
    def untimed_verdict(self) -> Verdict:
        """The same over the findings that rest on no clock."""
        return together(finding.verdict for finding in self.findings if not finding.timed)

    @property
    def outcome(self) -> Outcome:
        """PROMOTE, HOLD or ROLLBACK."""
        if self.verdict is Verdict.FAIL:
            return Outcome.ROLLBACK if self.taken else Outcome.HOLD
        if self.verdict is Verdict.PASS and not self.blocked_by:
            return Outcome.PROMOTE
        return Outcome.HOLD

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Findings that block the step: failures first, then what was measured, then the others."""
        held = [f for f in self.findings if f.verdict is not Verdict.PASS]
        return tuple(
            sorted(held, key=lambda f: (f.verdict is not Verdict.FAIL, f.estimate is None))
        )
