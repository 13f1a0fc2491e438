"""The candidate's time over the control's must lie below a ratio, in one race."""

from __future__ import annotations

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import Ratio, Rules, Where, below, plain
from harness.gates.base.timing import TimedSettings, Times, enough, ratio, ready, repeats, steadfast


class Settings(TimedSettings):
    """The candidate's percentile or mean, over the control's, must lie below ``max_ratio``."""

    max_ratio: Ratio

    @property
    def bound(self) -> str:
        return f"below {self.max_ratio:g} times the control's {self.percent} latency"

    @property
    def passes(self) -> Where:
        return "below"

    @property
    def limit(self) -> float:
        return self.max_ratio

    @property
    def unit(self) -> str:
        return "ratio"


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the whole interval of the ratio lies below the bound (method, section 5).

    Raises:
        EvidenceError: a time is not above 0, or the arms ran different queries.
    """
    race = ready(name, settings, evidence, rules)
    if isinstance(race, Finding):
        return race
    candidate, control = evidence.candidate.arm, evidence.control.arm

    def judged(times: Times) -> tuple[Verdict, Estimate]:
        found = ratio(times, settings.percent, candidate=candidate, control=control, rules=rules)
        return below(found, settings.max_ratio), found

    verdict, found, doubt = steadfast(race, judged)
    return settings.finding(
        name,
        verdict,
        f"{settings.percent} latency of {candidate} over {control} {plain(found)},"
        f" {many(len(race.query_ids), 'query')} in"
        f" {many(len(race.elapsed_ns[candidate]), 'process')} on"
        f" {race.machine}{repeats(race, settings, candidate, rules)}{doubt}",
        estimate=found,
        remedy=f"more than {enough(race, settings.percent, rules)} queries or a quieter machine in:"
        " harness race",
        cause=Cause.MACHINE if doubt else None,
    )
