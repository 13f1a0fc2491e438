"""Gates on the times of a race: a budget in milliseconds, and a ratio of the arms."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.core.evidence import Evidence, Race
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import counted, many
from harness.core.scores import Estimate
from harness.gates.base.rules import (
    MOST_RATIO,
    GateSettings,
    Milliseconds,
    Noise,
    Ratio,
    Rules,
    Where,
    below,
    plain,
)
from harness.stats import times as clock
from harness.stats.times import Nanoseconds

Percent = Literal["p50", "p90", "p95", "p99", "p99.5", "p99.9"]
Times = Mapping[str, Nanoseconds]
"""First answers by arm, shape (processes, queries)."""
AGAIN = "run: harness race"


class Hindrance(NamedTuple):
    """The reason against a verdict, and what would help."""

    cause: Cause
    reason: str
    remedy: str


class TimedSettings(GateSettings):
    """A gate on the times of a race, judged only if the machine was quiet enough."""

    timed: ClassVar[bool] = True
    needs: ClassVar[tuple[type, ...]] = (Race,)
    granted: ClassVar[tuple[str, ...]] = ("starts", "slowest")
    percent: Percent
    """The share of answers that must lie below the bound; the others may take any time."""
    max_noise: Noise
    """Largest A/A ratio: an arm's slowest process over its fastest."""
    max_stolen: Ratio
    """Largest share of an arm's time that it may have lost to the system."""

    @property
    def number(self) -> float:
        """The percentile as a number, between 0 and 100."""
        return float(self.percent[1:])

    @property
    def limit(self) -> float:
        return float(getattr(self, self.bounded_by))

    @abstractmethod
    def measured(self, race: Race, times: Times, evidence: Evidence, confidence: float) -> Estimate:
        """Compute what the gate judges from these times of the race."""

    @abstractmethod
    def said(self, race: Race, found: Estimate, evidence: Evidence) -> str:
        """State in words what was found."""

    def fewest(self, confidence: float) -> int:
        """Compute the fewest queries of a PASS, from the percentile and the level."""
        return clock.fewest_for(self.number, confidence)

    def hindered(self, race: Race) -> Hindrance | None:  # noqa: ARG002  a budget asks it
        """Return a hindrance of this gate's own; None without one."""
        return None

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """PASS where the whole interval of what is measured lies below the limit.

        Of queries of one cluster the first counts, for they take much the same time.
        """
        race = evidence.of(Race)
        names = [evidence.clusters.get(query_id, query_id) for query_id in race.query_ids]
        first = sorted({one: at for at, one in reversed([*enumerate(names)])}.values())
        arms = (evidence.control.arm, evidence.candidate.arm)
        hindrances = chain(
            _too_little(race, arms, len(first), self.fewest(rules.confidence)),
            *(_disturbances(race, self, arm, rules) for arm in arms),
        )
        if hindrance := next(hindrances, None) or self.hindered(race):
            return self.undecided(gate, *hindrance)

        def judged(times: Times) -> tuple[Verdict, Estimate]:
            distinct = {arm: times[arm][:, first] for arm in arms}
            found = self.measured(race, distinct, evidence, rules.confidence)
            return below(found, self.limit), found

        verdict, found, doubt, cause = _steadfast(race, judged)
        candidate = arms[1]
        again = clock.text_ratio(
            race.repeated_ns[candidate], race.elapsed_ns[candidate], confidence=rules.confidence
        )
        cached = ""
        if again is not None and again.high < 1 / self.max_noise:
            share = f"a text that comes again takes {again.value:.2g} of its first time"
            cached = f"; {candidate} has a cache: {share}"
        reason = (
            f"{self.said(race, found, evidence)}, {many(found.n, 'query')} in"
            f" {many(len(race.elapsed_ns[candidate]), 'process')}, which stand for every start,"
            f" on {race.machine}{cached}{doubt}"
        )
        remedy = f"more than {found.n} queries or a quieter machine in: harness race"
        return self.finding(gate, verdict, reason, estimate=found, remedy=remedy, cause=cause)


def _steadfast(
    race: Race, judge: Callable[[Times], tuple[Verdict, Estimate]]
) -> tuple[Verdict, Estimate, str, Cause | None]:
    """Judge times as measured, once more without the waiting, and a PASS by texts never given."""
    verdict, found = judge(race.elapsed_ns)
    if verdict is Verdict.INCONCLUSIVE:
        return verdict, found, "", None
    worked = {
        arm: np.maximum(times - race.lost_ns[arm], 1) for arm, times in race.elapsed_ns.items()
    }
    views = {
        Cause.MACHINE: (worked, "without what the answers waited for a processor"),
        Cause.CACHE: (race.unseen_ns, "with other words, as frequent and never given,"),
    }
    for cause, (timed, view) in views.items():
        other, measured = judge(timed)
        if other is not verdict and (verdict is Verdict.PASS or cause is Cause.MACHINE):
            doubt = f"; {view} it is {plain(measured)}, which is {other.value}"
            return Verdict.INCONCLUSIVE, found, doubt, cause
    return verdict, found, "", None


def _too_little(
    race: Race, arms: tuple[str, ...], distinct: int, fewest: int
) -> Iterator[Hindrance]:
    """Yield what the race lacks for a verdict on these arms."""
    if missing := [arm for arm in arms if arm not in race.elapsed_ns]:
        absent = f"{', '.join(missing)} did not take part in the race"
        yield Hindrance(Cause.NO_EVIDENCE, absent, AGAIN)
    if wrong := [arm for arm in arms if not race.verified.get(arm, False)]:
        yield Hindrance(
            Cause.IDENTITY,
            f"the rankings that {', '.join(wrong)} gave in the race were not verified as those of"
            " its run, so its speed means nothing",
            "replay the arm on the index that is raced, then run: harness race",
        )
    if distinct < fewest:
        yield Hindrance(
            Cause.TOO_FEW,
            f"{many(distinct, 'query was')} raced, and this percentile takes {fewest} at the"
            " policy's confidence",
            f"race {many(fewest - distinct, 'more query')}: race.queries in params.yaml",
        )
    if len(race.elapsed_ns[arms[0]]) <= 1:
        yield Hindrance(
            Cause.TOO_FEW,
            f"{arms[0]} was raced in one process, so it is unknown what another would have shown",
            "race.processes of 3 or more in params.yaml, then run: harness race",
        )


def _disturbances(
    race: Race, settings: TimedSettings, arm: str, rules: Rules
) -> Iterator[Hindrance]:
    """Yield what spoils an arm's times: a busy or noisy machine, work off the clock, or caches."""
    times, unseen, stolen = race.elapsed_ns[arm], race.unseen_ns[arm], race.stolen[arm]
    faster = 1 / settings.max_noise
    if stolen.share > settings.max_stolen:
        yield Hindrance(
            Cause.MACHINE,
            f"machine too busy while {arm} was timed: {stolen.by}, {stolen.share:.2%} of the time,"
            f" and the policy allows {settings.max_stolen:.2%}",
            "end the other programs, or take a machine of your own, then run: harness race",
        )
    if stolen.beside > settings.max_noise - 1:
        yield Hindrance(
            Cause.OFF_CLOCK,
            f"{arm} works off the clock: its other threads used {stolen.beside:.0%} of the"
            f" processor time of its answers after they were given, and"
            f" {settings.max_noise - 1:.0%} is allowed",
            "let the engine end its work before it answers, then run: harness race",
        )
    shared = clock.shared_ratio(times, race.turns[arm], confidence=rules.confidence)
    if shared is not None and shared.high < faster:
        yield Hindrance(
            Cause.CACHE,
            f"{arm} shares a cache with another arm of the race: a text that the other had before"
            f" takes {shared.value:.2g} of its time",
            "keep the cache in what is opened and not in the module, then run: harness race",
        )
    if unseen.shape != times.shape:
        yield Hindrance(
            Cause.CACHE,
            f"it is unknown whether {arm} keeps answers: not every text was raced with other words",
            AGAIN,
        )
    kept = clock.text_ratio(times, unseen, confidence=rules.confidence)
    if kept is not None and kept.high < faster:
        yield Hindrance(
            Cause.CACHE,
            f"{arm} keeps answers between processes: a text that another process had asked takes"
            f" {kept.value:.2g} of the time of other words that are as frequent",
            "open the engine without what it kept, then run: harness race",
        )
    own = clock.aa_ratio(times, settings.number)
    if own.high > settings.max_noise:
        yield Hindrance(
            Cause.MACHINE,
            f"machine too noisy: the {settings.percent} of {arm} in its slowest process is"
            f" {own.high:.3g} times that in its fastest, and the policy allows"
            f" {settings.max_noise:g}",
            "a quiet machine or more queries, then run: harness race",
        )


NS_PER_MS = 1_000_000


class BudgetSettings(GateSettings):
    """A time of the candidate must lie below ``max_ms`` milliseconds.

    The budget is for a machine that does the reference work in ``reference_ms``. Times of another
    machine are scaled by its time for that work, by a factor of at most ``max_scale``.
    """

    passes: ClassVar[Where] = "below"
    bounded_by: ClassVar[str] = "max_ms"
    unit: ClassVar[str] = "ms"
    max_ms: Milliseconds
    reference_ms: Milliseconds
    max_scale: Annotated[float, Field(ge=1, le=MOST_RATIO)]

    def scale(self, reference_ns: NDArray[np.int64]) -> float:
        """Ratio of the reference work's time to that on the machine of the budget."""
        return float(np.median(reference_ns)) / (self.reference_ms * NS_PER_MS)

    def unlike(self, reference_ns: NDArray[np.int64], machine: str) -> Hindrance | None:
        """Return a hindrance if the machine differs too much from that of the budget, or None."""
        scale = self.scale(reference_ns)
        if 1 / self.max_scale <= scale <= self.max_scale:
            return None
        return Hindrance(
            Cause.MACHINE,
            f"the reference work took {scale:.3g} times as long as on the machine of the budget,"
            f" further from 1 than a factor of {self.max_scale:g}: {machine}",
            "measure on a machine more like that of the budget, or state the budget for this one",
        )


class LatencyCeilingSettings(BudgetSettings, TimedSettings):
    """A percentile of the candidate's first answers must lie below ``max_ms`` milliseconds."""

    rule: ClassVar[str] = "latency_ceiling"

    @property
    def bound(self) -> str:
        return (
            f"{self.percent} below {self.max_ms:g} ms where the reference work takes"
            f" {self.reference_ms:g} ms"
        )

    def hindered(self, race: Race) -> Hindrance | None:
        return self.unlike(race.reference_ns, race.machine)

    def measured(self, race: Race, times: Times, evidence: Evidence, confidence: float) -> Estimate:
        here = clock.percentile(times[evidence.candidate.arm], self.number, confidence=confidence)
        in_ms = NS_PER_MS * self.scale(race.reference_ns)
        return Estimate(here.value / in_ms, here.low / in_ms, here.high / in_ms, here.n)

    def said(self, race: Race, found: Estimate, evidence: Evidence) -> str:
        by = self.scale(race.reference_ns)
        return (
            f"{self.percent} of {evidence.candidate.arm} {plain(found)} ms over"
            f" {counted(evidence.candidate.manifest.documents, 'document')}; budget scaled to"
            f" {self.max_ms * by:.3g} ms: this CPU runs the reference {1 / by:.3g} times as fast"
        )


class LatencyRatioSettings(TimedSettings):
    """The candidate's percentile over the control's must lie below ``max_ratio``.

    With ``per_query`` it is the percentile of the ratios of each query's two times. So ``p99``
    bounds the share of queries that take more than ``max_ratio`` times as long: below 1 %.
    """

    rule: ClassVar[str] = "latency_ratio"
    passes: ClassVar[Where] = "below"
    bounded_by: ClassVar[str] = "max_ratio"
    unit: ClassVar[str] = "ratio"
    max_ratio: Ratio
    per_query: bool = False

    @property
    def bound(self) -> str:
        what = "the control's time for the same query" if self.per_query else "the control's"
        return f"{self.percent} latency below {self.max_ratio:g} times {what}"

    def fewest(self, confidence: float) -> int:
        return clock.fewest_for(self.number, confidence, arms=1 if self.per_query else 2)

    def measured(
        self,
        race: Race,  # noqa: ARG002  a budget is scaled by it
        times: Times,
        evidence: Evidence,
        confidence: float,
    ) -> Estimate:
        of = clock.slowdown if self.per_query else clock.ratio
        arms = times[evidence.candidate.arm], times[evidence.control.arm]
        return of(*arms, self.number, confidence=confidence)

    def said(self, race: Race, found: Estimate, evidence: Evidence) -> str:  # noqa: ARG002  the same
        candidate, control = evidence.candidate.arm, evidence.control.arm
        if self.per_query:
            return f"{self.percent} over queries of {candidate} over {control} {plain(found)}"
        return f"{self.percent} latency of {candidate} over {control} {plain(found)}"
