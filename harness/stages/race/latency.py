"""What follows from a race: percentiles, ratios, noise and caches, with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.evidence import Race
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules
from harness.report.inputs import Latency
from harness.stages.compare.stage import Pair
from harness.stats.times.caches import repeat_ratio, seen_ratio
from harness.stats.times.processes import aa_ratio, mean_ratio, percentile, ratio
from harness.stats.times.quantiles import Nanoseconds

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
RATIOS = {"p50": 50.0, "p95": 95.0}


def latency(race: Race, pairs: Mapping[str, Pair], rules: Rules) -> Latency:
    """Summarise a race; a pair that did not take part has no ratios."""
    several = min(map(len, race.elapsed_ns.values()), default=0) > 1
    return Latency(
        race=race,
        percentiles={
            arm: {
                name: percentile(times, percent, confidence=rules.confidence)
                for name, percent in PERCENTILES.items()
            }
            for arm, times in race.elapsed_ns.items()
        },
        ratios={
            name: _ratios(race.elapsed_ns[candidate], race.elapsed_ns[control], rules)
            for name, (control, candidate) in pairs.items()
            if {control, candidate} <= race.elapsed_ns.keys()
        },
        aa={
            arm: {name: aa_ratio(times, percent) for name, percent in RATIOS.items()}
            for arm, times in race.elapsed_ns.items()
            if several
        },
        repeats={
            arm: estimate
            for arm, times in race.elapsed_ns.items()
            if (estimate := repeat_ratio(times, race.repeated_ns[arm], confidence=rules.confidence))
        },
        seen={
            arm: estimate
            for arm, times in race.elapsed_ns.items()
            if (estimate := seen_ratio(times, race.unseen_ns[arm], confidence=rules.confidence))
        },
    )


def _ratios(candidate: Nanoseconds, control: Nanoseconds, rules: Rules) -> dict[str, Estimate]:
    """Compute ratios of percentiles, which gates judge, and of means, which none does."""
    sure = rules.confidence
    return {
        **{name: ratio(candidate, control, at, confidence=sure) for name, at in RATIOS.items()},
        "mean": mean_ratio(candidate, control, confidence=sure),
    }
