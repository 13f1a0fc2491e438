"""What keeps a step from being promoted beside its gates: an INCONCLUSIVE finding of its own."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.gate import Cause, Finding, StepDecision, Verdict
from harness.corpus.tuning import Leak
from harness.policy.model import Policy

ROUNDING = 1e-12
PINNED, BUDGET, REGISTERED, TUNED = "pinned", "error_budget", "registered", "tuned"
RESERVATIONS = frozenset({PINNED, BUDGET, REGISTERED, TUNED})
"""Names that stand where a finding of a gate names its rule."""


def not_as_pinned(said: Sequence[str], *, pinned_at: str, again: str) -> Finding:
    """Say what differs from the pin; ``again`` is the command that pins what is there now."""
    return Finding(
        gate="Evidence is what the policy was pinned to",
        rule=PINNED,
        verdict=Verdict.INCONCLUSIVE,
        cause=Cause.PINNED,
        reason=f"since the pin of {pinned_at}: {'; '.join(said)}",
        bound="the pinned queries, judgements and race settings",
        estimate=None,
        limit=None,
        unit="evidence",
        remedy=f"the pinned evidence; or, if the change is meant, pin it again: {again}",
    )


def over_budget(policy: Policy) -> Finding | None:
    """Say that the looks counted so far cost more than ``alpha``; None where they do not.

    It rests on the record of one place, as times rest on one machine, so it is marked as timed.
    """
    spent = policy.error_budget.together
    if policy.alpha is None or spent <= policy.alpha + ROUNDING:
        return None
    looks = ", ".join(f"{step.name} {step.attempts}" for step in policy.steps if step.attempts > 1)
    return Finding(
        gate="Looks stay within the error budget",
        rule=BUDGET,
        verdict=Verdict.INCONCLUSIVE,
        cause=Cause.BUDGET,
        reason=(
            f"looks at evidence of its own: {looks}; together they may promote wrongly with"
            f" {spent:g}, more than alpha {policy.alpha:g} (looks of one step add up, Bonferroni)"
        ),
        bound=f"alpha {policy.alpha:g} over all looks",
        estimate=None,
        limit=None,
        unit="probability",
        remedy="a higher confidence, so that a look costs less; or a higher alpha, with its reason",
        timed=True,
    )


def not_as_registered(said: Sequence[str], *, today: bool) -> Finding:
    """Say what differs from a registration that the policy demands.

    ``today`` tells whether it rests on a race or on the log of one place, and so is timed.
    """
    what = "race and looks" if today else "policy and data"
    return Finding(
        gate=f"The {what} are as registered",
        rule=REGISTERED,
        verdict=Verdict.INCONCLUSIVE,
        cause=Cause.REGISTERED,
        reason="; ".join(said),
        bound="the registration that the policy names",
        estimate=None,
        limit=None,
        unit="registration",
        remedy="what was registered; or a new policy, registered before its results are seen:"
        " harness plan --register FILE",
        timed=today,
    )


def tuned_on(policy: Policy, leaks: Sequence[Leak]) -> tuple[Finding, ...]:
    """Say that arms were tuned on the queries that judge them; nothing where the policy allows it.

    The means of such an arm are those of the best of many: too good by what the search flattered.
    """
    seen = [leak for leak in leaks if leak.seen]
    if not seen or policy.tuned_reason:
        return ()
    return (
        Finding(
            gate="No arm was tuned on these judgements",
            rule=TUNED,
            verdict=Verdict.INCONCLUSIVE,
            cause=Cause.TUNED,
            reason="INVALID: " + "; ".join(leak.said for leak in seen),
            bound="queries that no tuning record names",
            estimate=None,
            limit=None,
            unit="queries",
            remedy="queries that the search has not seen, such as a test split; or a policy that"
            " says why these may judge (tuned_reason)",
        ),
    )


def of_gates(decision: StepDecision) -> tuple[Finding, ...]:
    """Give the findings that gates of the policy made."""
    return tuple(found for found in decision.findings if found.rule not in RESERVATIONS)
