"""Times of a race, and the reasons why they may say nothing."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from harness.core.evidence import Evidence, Race
from harness.core.gate import Finding
from harness.core.scores import Estimate
from harness.gates.base.rules import GateSettings, MinQueries, Rules, plain
from harness.stats import quantiles

Percent = Literal["p50", "p90", "p95", "p99", "mean"]


class TimedSettings(GateSettings):
    """A gate on the times of a race, judged only where the machine is quiet enough."""

    timed: ClassVar[bool] = True
    percent: Percent
    max_noise: Annotated[float, Field(gt=1)]
    """The same arm opened twice must agree within this factor, up or down."""
    min_queries: MinQueries

    @property
    def fewest(self) -> int:
        return self.min_queries


class Hindrance(NamedTuple):
    """Why no verdict can be given, and what would help."""

    reason: str
    settle: str


def ratio(race: Race, percent: Percent, *, candidate: str, control: str, rules: Rules) -> Estimate:
    """Candidate's time over control's."""
    return _ratio(race.elapsed_ns[candidate], race.elapsed_ns[control], percent, rules)


def ready(gate: str, settings: TimedSettings, evidence: Evidence, rules: Rules) -> Race | Finding:
    """Give the race, or the INCONCLUSIVE that says why it may not be looked at."""
    race = evidence.race
    if race is None:
        return settings.undecided(gate, "no race was run", "run: harness race")
    arms = (evidence.control.arm, evidence.candidate.arm)
    found = _absent(race, settings, arms) or _noise(race, settings, arms, rules)
    if found is not None:
        return settings.undecided(gate, found.reason, found.settle)
    return race


def _absent(race: Race, settings: TimedSettings, arms: tuple[str, ...]) -> Hindrance | None:
    if missing := [arm for arm in arms if arm not in race.elapsed_ns]:
        return Hindrance(f"{', '.join(missing)} did not take part in the race", "run: harness race")
    if wrong := [arm for arm in arms if not race.verified.get(arm, False)]:
        return Hindrance(
            f"the rankings that {', '.join(wrong)} gave in the race were not verified as those of"
            " its run, so its speed means nothing",
            "replay the arm on the index that is raced, then run: harness race",
        )
    if len(race.query_ids) < settings.min_queries:
        return Hindrance(
            f"{len(race.query_ids)} queries were raced, fewer than the {settings.min_queries}"
            " that the policy asks for",
            f"race {settings.min_queries - len(race.query_ids)} more queries",
        )
    if arms[0] not in race.again_ns:
        return Hindrance(
            f"{arms[0]} was not raced against itself, so the noise of the machine is unknown",
            "run: harness race with an A/A twin of the control",
        )
    return None


def _noise(
    race: Race, settings: TimedSettings, arms: tuple[str, ...], rules: Rules
) -> Hindrance | None:
    for arm in arms:
        if arm not in race.again_ns:
            continue
        own = _ratio(race.again_ns[arm], race.elapsed_ns[arm], settings.percent, rules)
        if not (1 / settings.max_noise <= own.low and own.high <= settings.max_noise):
            return Hindrance(
                f"machine too noisy: {arm} against itself has a {settings.percent} ratio of"
                f" {plain(own)}, not within a factor of {settings.max_noise:g}",
                "a quiet machine or more repetitions, then run: harness race",
            )
    return None


def _ratio(
    candidate: quantiles.Nanoseconds, control: quantiles.Nanoseconds, percent: Percent, rules: Rules
) -> Estimate:
    if percent == "mean":
        return quantiles.mean_ratio(
            candidate,
            control,
            confidence=rules.confidence,
            resamples=rules.resamples,
            seed=rules.seed,
        )
    return quantiles.ratio(
        candidate,
        control,
        float(percent[1:]),
        confidence=rules.confidence,
        resamples=rules.resamples,
        seed=rules.seed,
    )
