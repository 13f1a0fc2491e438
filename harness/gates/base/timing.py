"""Times of a race, and the reasons that make them inconclusive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from harness.core.evidence import Evidence, Race
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import GateSettings, MinQueries, Noise, Ratio, Rules, plain
from harness.stats.times import caches, processes
from harness.stats.times.quantiles import Nanoseconds

Percent = Literal["p50", "p90", "p95", "p99", "mean"]
Times = Mapping[str, Nanoseconds]
"""First answers by arm, shape (processes, queries)."""
AGAIN = "run: harness race"


class TimedSettings(GateSettings):
    """A gate on the times of a race, judged only if the machine was quiet enough."""

    timed: ClassVar[bool] = True
    percent: Percent
    max_noise: Noise
    """Largest A/A ratio: an arm must agree with itself across processes within this factor."""
    max_stolen: Ratio
    """Largest share of an arm's time that it may have lost to the system."""
    min_queries: MinQueries

    @property
    def required_queries(self) -> int:
        return self.min_queries


class Hindrance(NamedTuple):
    """The reason against a verdict, and what would help."""

    cause: Cause
    reason: str
    remedy: str


def ratio(
    times: Times, percent: Percent, *, candidate: str, control: str, rules: Rules
) -> Estimate:
    """Candidate's time over control's, of first answers."""
    return processes.ratio(
        times[candidate],
        times[control],
        _number(percent),
        inference=rules,
    )


def ready(gate: str, settings: TimedSettings, evidence: Evidence, rules: Rules) -> Race | Finding:
    """Give the race, or an INCONCLUSIVE with the reason why it cannot be used."""
    race = evidence.race
    if race is None:
        return settings.undecided(gate, Cause.NO_EVIDENCE, "no race was run", AGAIN)
    arms = (evidence.control.arm, evidence.candidate.arm)
    hindrance = _absent(race, settings, arms)
    for arm in arms:
        hindrance = (
            hindrance
            or _stolen(race, settings, arm)
            or _shared(race, settings, arm, rules)
            or _kept(race, settings, arm, rules)
            or _noise(race, settings, arm, rules)
        )
    if hindrance is not None:
        return settings.undecided(gate, hindrance.cause, hindrance.reason, hindrance.remedy)
    return race


def steadfast(
    race: Race, judge: Callable[[Times], tuple[Verdict, Estimate]]
) -> tuple[Verdict, Estimate, str]:
    """Judge times as measured, and once more without the waiting for processors.

    If the two verdicts differ, the result is INCONCLUSIVE with that reason.
    """
    verdict, found = judge(race.elapsed_ns)
    if verdict is Verdict.INCONCLUSIVE:
        return verdict, found, ""
    worked = {
        arm: np.maximum(times - race.lost_ns[arm], 1) for arm, times in race.elapsed_ns.items()
    }
    without, other = judge(worked)
    if without is verdict:
        return verdict, found, ""
    doubt = (
        f"; without what the answers waited for a processor it is {plain(other)}, which is"
        f" {without.value}: the verdict would be the machine's"
    )
    return Verdict.INCONCLUSIVE, found, doubt


def repeats(race: Race, settings: TimedSettings, arm: str, rules: Rules) -> str:
    """Report a cache: how fast an arm is when a text is repeated; empty if equally fast."""
    found = caches.repeat_ratio(
        race.elapsed_ns[arm], race.repeated_ns[arm], confidence=rules.confidence
    )
    if found is None or found.high >= 1 / settings.max_noise:
        return ""
    return f"; {arm} has a cache: a text that comes again takes {found.value:.2g} of its first time"


def enough(race: Race, percent: Percent, rules: Rules) -> int:
    """Give the INCONCLUSIVE for too few queries of a percentile."""
    number = _number(percent)
    fewest = processes.fewest_for(number, rules.confidence) if number else 0
    return max(len(race.query_ids), fewest - 1)


def _absent(race: Race, settings: TimedSettings, arms: tuple[str, ...]) -> Hindrance | None:
    if missing := [arm for arm in arms if arm not in race.elapsed_ns]:
        absent = f"{', '.join(missing)} did not take part in the race"
        return Hindrance(Cause.NO_EVIDENCE, absent, AGAIN)
    if wrong := [arm for arm in arms if not race.verified.get(arm, False)]:
        return Hindrance(
            Cause.IDENTITY,
            f"the rankings that {', '.join(wrong)} gave in the race were not verified as those of"
            " its run, so its speed means nothing",
            "replay the arm on the index that is raced, then run: harness race",
        )
    if len(race.query_ids) < settings.min_queries:
        return Hindrance(
            Cause.TOO_FEW,
            f"{many(len(race.query_ids), 'query was')} raced, fewer than the {settings.min_queries}"
            " that the policy asks for",
            f"race {many(settings.min_queries - len(race.query_ids), 'more query')}",
        )
    if len(race.elapsed_ns[arms[0]]) <= 1:
        return Hindrance(
            Cause.TOO_FEW,
            f"{arms[0]} was raced in one process, so it is unknown what another would have shown",
            "race.processes of 3 or more in params.yaml, then run: harness race",
        )
    return None


def _stolen(race: Race, settings: TimedSettings, arm: str) -> Hindrance | None:
    stolen = race.stolen[arm]
    if stolen.share <= settings.max_stolen:
        return None
    return Hindrance(
        Cause.MACHINE,
        f"machine too busy while {arm} was timed: {stolen.by}, {stolen.share:.2%} of the time, and"
        f" the policy allows {settings.max_stolen:.2%}",
        "end the other programs, or take a machine of your own, then run: harness race",
    )


def _shared(race: Race, settings: TimedSettings, arm: str, rules: Rules) -> Hindrance | None:
    found = caches.shared_ratio(race.elapsed_ns[arm], race.turns[arm], confidence=rules.confidence)
    if found is None or found.high >= 1 / settings.max_noise:
        return None
    return Hindrance(
        Cause.CACHE,
        f"{arm} shares a cache with another arm of the race: a text that the other had before"
        f" takes {found.value:.2g} of its time",
        "keep the cache in what is opened and not in the module, then run: harness race",
    )


def _kept(race: Race, settings: TimedSettings, arm: str, rules: Rules) -> Hindrance | None:
    found = caches.seen_ratio(
        race.elapsed_ns[arm], race.unseen_ns[arm], confidence=rules.confidence
    )
    if found is None or found.high >= 1 / settings.max_noise:
        return None
    return Hindrance(
        Cause.CACHE,
        f"{arm} keeps answers between processes: a text that another process had asked takes"
        f" {found.value:.2g} of the time of its words in an order that no process had asked",
        "open the engine without what it kept, then run: harness race",
    )


def _noise(race: Race, settings: TimedSettings, arm: str, rules: Rules) -> Hindrance | None:
    own = processes.aa_ratio(
        race.elapsed_ns[arm],
        _number(settings.percent),
        inference=rules,
    )
    if 1 / settings.max_noise <= own.low and own.high <= settings.max_noise:
        return None
    return Hindrance(
        Cause.MACHINE,
        f"machine too noisy: {arm} against itself in other processes has a {settings.percent}"
        f" ratio of {plain(own)}, not within a factor of {settings.max_noise:g}",
        "a quiet machine, more queries or more processes, then run: harness race",
    )


def _number(percent: Percent) -> float | None:
    return None if percent == "mean" else float(percent[1:])
