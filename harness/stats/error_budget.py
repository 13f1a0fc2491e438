"""The error budget of the stages of a migration that are taken one after the other.

Within a stage all gates must pass, so a stage's false-promotion rate is at most that of one gate
(intersection-union test; Berger, Technometrics 24, 1982). Along a chain a stage is promoted only
after those before it, which is a fixed sequence (Maurer, Hothorn and Lehmacher, 1995). Any false
promotion includes the first wrong stage, so the chain errs no more often than one stage, and the
level need not be split. Two things cost: a stage that does not wait starts a chain of its own, and
a stage that is judged again on new evidence may err again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.errors import EvidenceError


@dataclass(frozen=True, slots=True)
class BudgetedStage:
    """A step of a policy, for its error budget."""

    name: str
    waits: bool
    """Whether it can be promoted only after the stage before it was."""
    attempts: int
    """Number of looks on evidence of its own, this one included; 1 if it is valid at every look."""


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """The error budget of a chain of stages."""

    level: float
    """Probability of a wrong PASS of one gate, judged once, at its bound."""
    by_stage: tuple[float, ...]
    """False-promotion rate over all attempts, stage by stage."""
    together: float
    """False-promotion rate over all stages."""


def error_budget(stages: Sequence[BudgetedStage], *, confidence: float) -> ErrorBudget:
    """Compute the error budget of ``stages`` in order, each gate by an interval of ``confidence``.

    An interval of 95 % has 2.5 % on each side, and a wrong PASS is on one. Attempts of one stage
    add up (Bonferroni), stages that wait for each other do not, chains side by side do. These are
    bounds; they hold whatever the stages' data share.

    Raises:
        EvidenceError: the first stage waits, a stage was never judged, or the confidence does
            not lie between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise EvidenceError(f"a confidence of {confidence} does not lie between 0 and 1")
    level = (1 - confidence) / 2
    by_stage = []
    chains: list[float] = []
    for stage in stages:
        if stage.attempts < 1:
            raise EvidenceError(f"{stage.name} was judged {stage.attempts} times; leave it out")
        own = min(1.0, level * stage.attempts)
        by_stage.append(own)
        if not stage.waits:
            chains.append(own)
        elif chains:
            chains[-1] = max(chains[-1], own)
        else:
            raise EvidenceError(f"{stage.name} waits for a stage, and there is none before it")
    return ErrorBudget(level, tuple(by_stage), min(1.0, sum(chains)))
