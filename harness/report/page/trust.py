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
        own = {step.name: step for step in self.policy.steps}
        if name not in own:
            return ""
        looks = own[name].attempts
        over = "a single look" if looks == 1 else many(looks, "look")
        return f"False-promotion rate: the design allows {percent(self.alphas[name])} over {over}."

    @property
    def alphas(self) -> dict[str, float]:
        """False-promotion rate of each step, by its name."""
        names = (step.name for step in self.policy.steps)
        return dict(zip(names, self.policy.error_budget.by_stage, strict=True))

    @property
    def together(self) -> str:
        """Say the error budget of all steps."""
        allowed = self.policy.alpha
        limit = "the policy sets no limit" if allowed is None else f"allowed {percent(allowed)}"
        waiting = self.policy.chained and len(self.policy.steps) > 1
        how = "waiting for each other" if waiting else "each for itself"
        return (
            f"Error budget of all steps together, {how}:"
            f" {percent(self.policy.error_budget.together)} by design ({limit})."
        )
