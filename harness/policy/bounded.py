"""One gate over all that its evidence leaves open: a verdict only if all ends agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules, signed
from harness.policy.model import Gate


def judge_over(gate: Gate, evidence: Evidence, ends: Sequence[Evidence], rules: Rules) -> Finding:
    """Judge ``evidence``, and give its verdict if each of ``ends`` gives it too.

    The ends are the same evidence with all that is open settled for the worst and for the best of
    the candidate. The interval of the finding covers all of them. A loss at one end and a gain at
    the other count as different verdicts, even if both are FAIL.
    """
    found = gate.judge(evidence, rules)
    others = [gate.judge(end, rules) for end in ends]
    one_answer = all(other.verdict is found.verdict for other in others)
    estimates = [other.estimate for other in others if other.estimate is not None]
    if found.estimate is None or all(one == found.estimate for one in estimates):
        return found if one_answer else _left_open(found)
    low, high = min(one.low for one in estimates), max(one.high for one in estimates)
    over = replace(
        found,
        estimate=Estimate(found.estimate.value, low, high, found.estimate.n),
        reason=f"{found.reason}; at the ends of what ties leave open"
        f" {', '.join(signed(one) for one in estimates)}",
    )
    turns = min(one.high for one in estimates) < 0 < max(one.low for one in estimates)
    if one_answer and not (turns and found.verdict is Verdict.FAIL):
        return over
    return _left_open(over)


def _left_open(finding: Finding) -> Finding:
    remedy = "a run whose scores tell hits apart: with more digits, or in the engine's own order"
    if finding.verdict is Verdict.INCONCLUSIVE:
        return replace(finding, remedy=finding.remedy or remedy)
    return replace(finding, verdict=Verdict.INCONCLUSIVE, cause=Cause.TIES, remedy=remedy)
