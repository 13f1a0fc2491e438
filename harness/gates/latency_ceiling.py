"""The candidate must answer within a budget in milliseconds."""

from __future__ import annotations

from typing import Literal

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import counted, many
from harness.core.scores import Estimate
from harness.gates.base.budget import NS_PER_MS, BudgetSettings
from harness.gates.base.rules import Rules, below, plain
from harness.gates.base.timing import TimedSettings, Times, enough, ready, repeats, steadfast
from harness.stats.times.processes import percentile


class Settings(BudgetSettings, TimedSettings):
    """A percentile of the candidate's first answers must lie below ``max_ms`` milliseconds."""

    percent: Literal["p50", "p90", "p95", "p99"]

    @property
    def bound(self) -> str:
        return (
            f"{self.percent} below {self.max_ms:g} ms where the reference work takes"
            f" {self.reference_ms:g} ms"
        )


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the whole interval of the percentile lies below the budget.

    Raises:
        EvidenceError: a time is not above 0.
    """
    race = ready(name, settings, evidence, rules)
    if isinstance(race, Finding):
        return race
    if unlike := settings.unlike(race.reference_ns, race.machine):
        return settings.undecided(name, unlike.cause, unlike.reason, unlike.remedy)
    arm, percent = evidence.candidate.arm, float(settings.percent[1:])
    scale = settings.scale(race.reference_ns)

    def judged(times: Times) -> tuple[Verdict, Estimate]:
        here, in_ms = (
            percentile(times[arm], percent, confidence=rules.confidence),
            NS_PER_MS * scale,
        )
        found = Estimate(here.value / in_ms, here.low / in_ms, here.high / in_ms, here.n)
        return below(found, settings.max_ms), found

    verdict, found, doubt = steadfast(race, judged)
    return settings.finding(
        name,
        verdict,
        f"{settings.percent} of {arm} {plain(found)} ms, {many(found.n, 'query')} in"
        f" {many(len(race.elapsed_ns[arm]), 'process')} over"
        f" {counted(evidence.candidate.manifest.documents, 'document')}, {race.machine}; the"
        f" budget there is {settings.max_ms * scale:.3g} ms, for"
        f" the reference work took {scale:.3g} times as long"
        f"{repeats(race, settings, arm, rules)}{doubt}",
        estimate=found,
        remedy=f"more than {enough(race, settings.percent, rules)} queries or a quieter machine in:"
        " harness race",
        cause=Cause.MACHINE if doubt else None,
    )
