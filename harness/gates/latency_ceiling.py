"""The candidate must be quicker than a budget, on the machine that the budget was set for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.core.evidence import Evidence
from harness.core.gate import Finding
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules, Where, below, plain
from harness.gates.base.timing import TimedSettings, ready
from harness.stats.quantiles import clustered

NS_PER_MS = 1_000_000


class Settings(TimedSettings):
    """A percentile of the candidate's times, below ``max_ms`` milliseconds on ``machine``."""

    percent: Literal["p50", "p90", "p95", "p99"]
    max_ms: Annotated[float, Field(gt=0)]
    machine: str
    """The line that names a machine in a race; times of another are not judged."""

    @property
    def bound(self) -> str:
        return f"{self.percent} below {self.max_ms:g} ms on {self.machine}"

    @property
    def passes(self) -> Where:
        return "below"

    @property
    def limit(self) -> float:
        return self.max_ms

    @property
    def unit(self) -> str:
        return "ms"


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the whole interval of the percentile lies below the budget.

    Raises:
        EvidenceError: a time is not above 0.
    """
    race = ready(name, settings, evidence, rules)
    if isinstance(race, Finding):
        return race
    if race.machine != settings.machine:
        return settings.undecided(
            name,
            f"raced on {race.machine}, but the budget was set for {settings.machine}",
            f"on {settings.machine} run: harness race",
        )
    arm = evidence.candidate.arm
    in_ns = clustered(
        race.elapsed_ns[arm],
        float(settings.percent[1:]),
        confidence=rules.confidence,
        resamples=rules.resamples,
        seed=rules.seed,
    )
    found = Estimate(
        in_ns.value / NS_PER_MS, in_ns.low / NS_PER_MS, in_ns.high / NS_PER_MS, in_ns.n
    )
    return settings.finding(
        name,
        below(found, settings.max_ms),
        f"{settings.percent} of {arm} {plain(found)} ms, {found.n} queries on {race.machine}",
        estimate=found,
        settle=f"more than {found.n} queries or a quieter machine in: harness race",
    )
