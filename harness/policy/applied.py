"""The steps of a policy file that a decision judged: its first ones, or one for each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.core.errors import EvidenceError
from harness.policy.model import Policy
from harness.policy.pairwise import for_candidates


class Judged(NamedTuple):
    """A step as a decision names it."""

    step: str
    control: str
    candidate: str


def as_applied(template: Policy, judged: Sequence[Judged]) -> Policy:
    """Give the policy that has exactly the steps ``judged``, in their order.

    Raises:
        EvidenceError: ``template`` cannot be applied so; a step was left out, added or renamed.
    """
    own = [Judged(step.name, step.control, step.candidate) for step in template.steps]
    if judged and list(judged) == own[: len(judged)]:
        return template.until(judged[-1].step)
    controls = {one.control for one in judged}
    names = [one.candidate for one in judged]
    if len(own) == 1 and len(controls) == 1 and names == [one.step for one in judged]:
        return for_candidates(template, controls.pop(), names)
    said = ", ".join(one.step for one in judged) or "none"
    raise EvidenceError(
        f"the steps {said} were judged, and the policy {template.name} has"
        f" {', '.join(one.step for one in own)}; decide again: harness gate"
    )
