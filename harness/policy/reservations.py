"""What keeps a step from being promoted beside its gates: an INCONCLUSIVE finding of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.gate import Cause, Finding, StepDecision, Verdict
from harness.core.printable import many
from harness.corpus.tuning import Leak
from harness.policy.looks import Looks
from harness.policy.model import Policy

ROUNDING = 1e-9
PINNED, BUDGET, TUNED, PREMISES = "pinned", "error_budget", "tuned", "premises"
RESERVATIONS = frozenset({PINNED, BUDGET, TUNED, PREMISES})
"""Names that stand where a finding of a gate names its rule."""


def reservation(
    gate: str,
    rule: str,
    cause: Cause,
    reason: str,
    *,
    bound: str,
    unit: str,
    remedy: str,
    timed: bool = False,
) -> Finding:
    """Return an INCONCLUSIVE finding without a number."""
    said = Verdict.INCONCLUSIVE
    return Finding(
        gate, rule, said, cause, reason, bound, None, None, unit, remedy, None, timed
    )  # fmt: skip


def not_as_pinned(said: Sequence[str], *, pinned_at: str, again: str) -> Finding:
    """Say what differs from the pin; ``again`` is the command that pins what is there now."""
    return reservation(
        "Evidence is what the policy was pinned to",
        PINNED,
        Cause.PINNED,
        f"since the pin of {pinned_at}: {'; '.join(said)}",
        bound="the pinned queries, judgements and race settings",
        unit="evidence",
        remedy=f"the pinned evidence; or, if the change is meant, pin it again: {again}",
    )


def over_budget(policy: Policy, looks: Mapping[str, Looks]) -> dict[str, Finding]:
    """Say of each step, by its name, that more attempts were made than the policy plans.

    A policy that declares its attempts has no log to count them from. A log is the record of one
    place, as times are of one machine, so the finding is marked as timed.
    """
    if policy.declared:
        return {}
    return {
        step: reservation(
            "Attempts stay within the error budget",
            BUDGET,
            Cause.BUDGET,
            f"this is attempt {one.attempts} and {policy.attempts} were planned: together they"
            f" may promote wrongly with {one.spent:.3g}, and the budget is {policy.alpha:.3g}",
            bound=f"{policy.alpha:.3g} over {many(policy.attempts, 'attempt')}",
            unit="probability",
            remedy="a new version of the policy with a budget of its own, on fresh queries in a"
            " data set of their own",
            timed=True,
        )
        for step, one in looks.items()
        if one.spent > policy.alpha + ROUNDING
    }


def tuned_on(policy: Policy, leaks: Sequence[Leak]) -> tuple[Finding, ...]:
    """Say that arms were tuned on the queries that judge them; nothing where the policy allows it.

    The means of such an arm are those of the best of many: too good by what the search flattered.
    """
    seen = [leak for leak in leaks if leak.seen]
    if not seen or policy.tuned_reason:
        return ()
    return (
        reservation(
            "No arm was tuned on these judgements",
            TUNED,
            Cause.TUNED,
            "INVALID: " + "; ".join(leak.said for leak in seen),
            bound="queries that no tuning record names",
            unit="queries",
            remedy="queries that the search has not seen, such as a test split; or a policy that"
            " says why these may judge (tuned_reason)",
        ),
    )


def of_gates(decision: StepDecision) -> tuple[Finding, ...]:
    """Give the findings that gates of the policy made."""
    return tuple(found for found in decision.findings if found.rule not in RESERVATIONS)
