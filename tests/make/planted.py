"""What the tests of planted faults share."""

from __future__ import annotations

from collections.abc import Callable

from harness.core.engine import Answer
from harness.core.gate import Finding, Outcome, StepDecision
from harness.pipeline.replay import replay
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.crosscheck import check_agreements
from tests.make.toy import CANDIDATE, CONTROL, Toy

Search = Callable[[TantivySearcher, str, int], Answer]
HONEST: Search = TantivySearcher.search


def measure(project: Toy) -> None:
    """Ask the candidate once more, and score and compare."""
    replay(project.layout, CANDIDATE, project.cache, project.params.replay)
    project.judge_again()


def check_kernels(project: Toy) -> None:
    """Compute the agreements by other code."""
    check_agreements(project.layout, [(CONTROL, CANDIDATE)])


def blocking(decision: StepDecision) -> dict[str, Finding]:
    """Give what turned the decision away, by gate; it must have been turned away."""
    assert decision.outcome is not Outcome.PROMOTE
    return {finding.gate: finding for finding in decision.blocking}
