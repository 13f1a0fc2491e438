"""Both arms must show about as many judged documents, for a fair comparison of quality."""

from __future__ import annotations

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.gates.base.paired import compare
from harness.gates.base.queries import SampleSettings, too_few
from harness.gates.base.rules import Rules, Share, Where, signed, within


class Settings(SampleSettings):
    """The mean difference of the judged share, candidate - control, must lie within ``max_gap``."""

    max_gap: Share

    @property
    def bound(self) -> str:
        return f"shares of judged documents differ by less than {self.max_gap:g} ({self.where})"

    @property
    def passes(self) -> Where:
        return "within"

    @property
    def limit(self) -> float:
        return self.max_gap


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the interval lies within the gap, else INCONCLUSIVE; never FAIL.

    A query for which one arm has no value counts as the widest gap, against the PASS.
    """
    found = compare(evidence, settings, versus=None)
    if thin := too_few(name, settings, found.paired.query_ids, evidence, found.losses):
        return thin
    estimate = found.estimate(rules)
    ends = [found.with_unpaired(each, rules) for each in (-1.0, 1.0)]
    fine = all(within(end, settings.max_gap) is Verdict.PASS for end in (estimate, *ends))
    less = found.candidate_arm if estimate.value < 0 else found.control_arm
    return settings.finding(
        name,
        Verdict.PASS if fine else Verdict.INCONCLUSIVE,
        f"{settings.where}: {found.means}, difference {signed(estimate)}{found.losses}",
        estimate=estimate,
        remedy=f"judge the pool: the unjudged documents that the arms show, first those of {less}",
        cause=Cause.UNJUDGED,
    )
