"""The candidate may differ from the control by no more than a margin, up or down."""

from __future__ import annotations

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.gates.base.completions import Bound
from harness.gates.base.differences import LESS, compare
from harness.gates.base.queries import SampleSettings, too_few
from harness.gates.base.rules import Margin, Rules, Where, signed, within


class Settings(SampleSettings):
    """The mean of candidate - control must lie between -``margin`` and ``margin``."""

    margin: Margin

    @property
    def bound(self) -> str:
        return f"differs by less than {self.margin:g} of {self.where}"

    @property
    def passes(self) -> Where:
        return "within"

    @property
    def limit(self) -> float:
        return self.margin


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the whole interval lies within the margin on both sides.

    These are Schuirmann's two one-sided tests (1987); the p-value is the larger of the two. A
    PASS must also hold with each lost query counted as -1, and with each counted as +1.
    """
    found = compare(evidence, settings, versus=None)
    if thin := too_few(name, settings, found.paired.query_ids, evidence, found.losses):
        return thin
    estimate = found.estimate(rules)
    margin = settings.margin
    verdict, bound = within(estimate, margin), Bound(margin, both=True)
    reason = f"{settings.where}: {found.said(bound, rules)}"
    remedy, cause = "", Cause.OPEN
    if verdict is Verdict.INCONCLUSIVE:
        remedy, cause = found.settled(bound, rules)
    if verdict is Verdict.PASS and found.paired.unpaired:
        ends = [found.with_unpaired(each, rules) for each in (-1.0, 1.0)]
        if any(within(end, margin) is not Verdict.PASS for end in ends):
            verdict = Verdict.INCONCLUSIVE
            remedy, cause = found.answers, Cause.UNANSWERED
        reason += "; with these counted as -1 each {}, as +1 each {}".format(*map(signed, ends))
    if empty := found.empty_pass(verdict, estimate, margin):
        verdict, reason, remedy = Verdict.INCONCLUSIVE, f"{reason}; {empty}", LESS
        cause = Cause.EMPTY
    p_value = max(found.p_above(-margin, rules), found.p_below(margin, rules))
    return settings.finding(
        name,
        verdict,
        reason,
        estimate=estimate,
        remedy=remedy,
        p_value=p_value,
        cause=cause,
    )
