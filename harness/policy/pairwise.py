"""A policy for one control and any candidates: the gates of a template, once a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.policy.model import Policy


def for_candidates(template: Policy, control: str, candidates: Sequence[str]) -> Policy:
    """Judge each candidate by the gates of the template's one step.

    The steps are named after the candidates and none waits for another.

    Raises:
        EvidenceError: the template has more than one step, or the candidate is missing.
    """
    if len(template.steps) != 1:
        raise EvidenceError(
            f"the policy {template.name} has {many(len(template.steps), 'step')}, which name their"
            " own arms: leave --control out. To compare with one control, name a policy with one"
            " step; its gates judge each candidate"
        )
    if not candidates:
        raise EvidenceError(f"no arm is compared with {control}; name one more with --arms")
    (step,) = template.steps
    steps = tuple(replace(step, name=arm, control=control, candidate=arm) for arm in candidates)
    return replace(template, steps=steps, chained=False)


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
