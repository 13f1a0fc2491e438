"""At a stated arrival rate, an answer must come within a budget, queueing delay included."""

from typing import ClassVar, Literal

from harness.core.evidence import AtRate, Evidence, Load
from harness.core.gate import Cause, Finding
from harness.gates.base.rules import Fewest, MinQueries, Noise, Ratio, Rules, Share, below, plain
from harness.gates.latency import NS_PER_MS, BudgetSettings, Hindrance
from harness.load.rates import fewest_rounds, median_of


class QueueingSettings(BudgetSettings):
    """A percentile of the time in the system, at ``rate`` arrivals a second, lies below ``max_ms``.

    The time counts from the intended start, so it includes queueing delay. An unanswered query
    exceeds any budget.
    """

    timed: ClassVar[bool] = True
    needs: ClassVar[tuple[type, ...]] = (Load,)
    rate: Ratio
    """Arrivals a second; the load test must have run at this rate."""
    percent: Literal["p50", "p90", "p95", "p99"]
    max_noise: Noise
    """Largest A/A ratio: the first arm, opened twice, must agree within this factor in every
    round."""
    max_busy: Share
    """Largest share of the processors that other programs may have used before a round."""
    min_arrivals: MinQueries
    """Fewest arrivals of a round."""

    @property
    def bound(self) -> str:
        return (
            f"{self.percent} in the system below {self.max_ms:g} ms at {self.rate:g} arrivals a"
            f" second, where the reference work takes {self.reference_ms:g} ms"
        )

    def planned(self, confidence: float) -> Fewest:
        of = f"rounds of load with {self.min_arrivals:,} arrivals at {self.rate:g} a second"
        note = "how far rounds differ is known after a load test, so its power is not planned"
        return Fewest(of, fewest_rounds(confidence), note)

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        return judge(gate, self, evidence, rules)


def judge(name: str, settings: QueueingSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the interval of the median over rounds lies below the budget."""
    arm = evidence.candidate.arm
    again = f"run: harness load --arm {evidence.control.arm} --arm {arm} --rate {settings.rate:g}"
    load = evidence.of(Load)
    rounds = load.at.get(arm, {}).get(settings.rate)
    if rounds is None:
        tried = ", ".join(f"{rate:g}" for rate in sorted(load.at.get(arm, {}))) or "none"
        return settings.undecided(
            name,
            Cause.NO_EVIDENCE,
            f"{arm} was not loaded with {settings.rate:g} arrivals a second; the last load had"
            f" {tried}",
            again,
        )
    if hindrance := _hindered(settings, load, rounds):
        return settings.undecided(name, *hindrance[:2], hindrance.remedy or again)
    scale = settings.scale(load.reference_ns)
    in_ms = rounds.system_ns[settings.percent] / (NS_PER_MS * scale)
    over = median_of(in_ms.tolist(), confidence=rules.confidence)
    if over is None:
        return settings.undecided(
            name,
            Cause.TOO_FEW,
            f"{len(in_ms)} rounds count, too few for an interval of {rules.confidence:.0%}"
            f"{_left_out(rounds)}",
            f"more rounds: {again} --rounds N",
        )
    return settings.finding(
        name,
        below(over, settings.max_ms),
        f"{settings.percent} in the system of {arm} at {settings.rate:g} arrivals a second"
        f" {plain(over)} ms, median of {over.n} rounds of {rounds.arrivals} arrivals or more,"
        f" {load.machine}. The budget there is {settings.max_ms * scale:.3g} ms, for the reference"
        f" work took {scale:.3g} times as long{_left_out(rounds)}",
        estimate=over,
        remedy=f"more rounds: {again} --rounds N",
    )


def _hindered(settings: QueueingSettings, load: Load, rounds: AtRate) -> Hindrance | None:
    """Return why the rounds may not be looked at; None where they may."""
    if unlike := settings.unlike(load.reference_ns, load.machine):
        return unlike
    noise = load.noise.get(settings.rate)
    worst = max((max(one, 1 / one) for one in noise), default=None) if noise is not None else None
    if worst is None or worst > settings.max_noise:
        said = "was not loaded twice" if worst is None else f"differs {worst:.3g} times from itself"
        return Hindrance(
            Cause.MACHINE,
            f"machine too noisy: the load's first arm {said} at this rate, and"
            f" {settings.max_noise:g} times is allowed",
            "",
        )
    if (busy := float(rounds.busy.max(initial=0))) > settings.max_busy:
        return Hindrance(
            Cause.MACHINE,
            f"machine too busy: other programs used {busy:.1%} of the processors before a round,"
            f" and the policy allows {settings.max_busy:.1%}",
            "",
        )
    if rounds.arrivals < settings.min_arrivals:
        return Hindrance(
            Cause.TOO_FEW,
            f"a round had {rounds.arrivals} arrivals, fewer than the {settings.min_arrivals} that"
            " the policy asks for",
            f"longer trials: harness load --arm ARM --seconds"
            f" {settings.min_arrivals / settings.rate * 1.2:.0f}",
        )
    return None


def _left_out(rounds: AtRate) -> str:
    out = rounds.objections
    return f"; {len(out)} rounds do not count: {out[0]}" if out else ""
