"""What the log of experiments notes where a policy judged, and what it rested on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from harness.core import digest
from harness.core.experiment import Inputs
from harness.core.gate import StepDecision
from harness.corpus.inventory import Inventory
from harness.policy.looks import looked
from harness.policy.model import Policy
from harness.stages.experiments import log as experiment_log
from harness.stages.experiments.inputs import inputs, stock
from harness.stages.layout import Layout


def judged_on(layout: Layout, policy: Policy, policy_file: Path, inventory: Inventory) -> Inputs:
    """Give the digests of all that ``policy`` looks at in ``layout``."""
    return inputs(
        layout,
        [arm for arm in policy.arms if layout.run(arm).is_file()],
        inventory,
        policy=digest.of_file(policy_file),
        seeds={"policy": policy.rules.seed},
        loaded=policy.loaded,
    )


def note_judged(
    layout: Layout,
    policy: Policy,
    policy_file: Path,
    decisions: Sequence[StepDecision],
    at: datetime,
    *,
    decided: bool,
) -> None:
    """Add what a policy said of the evidence at hand to the log.

    ``decided`` tells whether it left a decision; then the caller holds ``layout.experiments``.
    """
    inventory = stock(layout)
    found = judged_on(layout, policy, policy_file, inventory)
    steps = [
        looked(policy, step, found, decision.outcome.value)
        for step, decision in zip(policy.steps, decisions, strict=True)
    ]
    experiment_log.add(
        layout,
        "gate" if decided else "decide",
        at,
        policy=policy.name,
        inputs=found,
        inventory=inventory,
        steps=steps,
        decision=digest.of_file(layout.decision) if decided else None,
    )
