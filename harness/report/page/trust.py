"""How far verdicts can be trusted: the error budget of the policy."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.printable import many
from harness.policy.model import Policy
from harness.report.rounding import percent


@dataclass(frozen=True, slots=True)
class Trust:
    """What the policy may err, beside what it says."""

    policy: Policy

    def step(self, name: str) -> str:
        """State what a step may err by design; empty where the policy has no such step."""
        if name not in {step.name for step in self.policy.steps}:
            return ""
        return (
            f"False-promotion rate: the design allows {percent(self.policy.level)} in one attempt."
        )

    @property
    def together(self) -> str:
        """Say the error budget over all attempts, and whether a log counts them."""
        policy = self.policy
        said = (
            f"Error budget: {percent(policy.alpha)} false promotion at each control, over"
            f" {many(policy.attempts, 'planned attempt')} of {percent(policy.level)}."
        )
        if policy.declared:
            said += f" Attempts are declared, not counted: {policy.declared}."
        if granted := policy.premises.model_dump(exclude_none=True):
            each = "; ".join(f"{key}: {why}" for key, why in granted.items())
            said += f" Taken for granted, and not checked: {each}."
        return said
