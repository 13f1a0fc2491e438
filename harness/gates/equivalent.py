"""The candidate may differ from the control by no more than a margin, up or down."""

from __future__ import annotations

from harness.core.evidence import Evidence
from harness.core.gate import Finding, Verdict
from harness.gates.base.paired import compare
from harness.gates.base.queries import SampleSettings, too_few
from harness.gates.base.rules import Rules, Share, Where, signed, some, within


class Settings(SampleSettings):
    """The mean of candidate - control must lie between -``margin`` and ``margin``."""

    margin: Share

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
    verdict = within(estimate, margin)
    reason = f"{settings.where}: {found.means}, difference {signed(estimate)}{found.losses}"
    settle = found.needed(margin if estimate.value > 0 else -margin, rules)
    if verdict is Verdict.PASS and found.paired.lost:
        ends = [found.with_lost(each, rules) for each in (-1.0, 1.0)]
        if any(within(end, margin) is not Verdict.PASS for end in ends):
            verdict = Verdict.INCONCLUSIVE
            settle = f"no failures: find out why {some(found.paired.lost)} failed and replay"
        reason += "; with these counted as -1 each {}, as +1 each {}".format(*map(signed, ends))
    p_value = max(found.p_value(-margin, "greater", rules), found.p_value(margin, "less", rules))
    return settings.finding(
        name, verdict, reason, estimate=estimate, settle=settle, p_value=p_value
    )
