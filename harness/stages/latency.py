"""What follows from a race: percentiles, ratios and the noise of the machine, with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.evidence import Race
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules
from harness.report.inputs import Latency
from harness.stages.compare import Pair
from harness.stats.quantiles import Nanoseconds, clustered, mean_ratio, order_interval, ratio

CLUSTERED = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
FAR_TAIL = {"p99.9": 99.9}
"""Too far out for resampled queries; shown where the times themselves give an interval."""
RATIOS = {"p50": 50.0, "p95": 95.0}


def latency(race: Race, pairs: Mapping[str, Pair], rules: Rules) -> Latency:
    """Summarise a race; a pair that did not take part has no ratios."""
    return Latency(
        race=race,
        percentiles={arm: _percentiles(times, rules) for arm, times in race.elapsed_ns.items()},
        ratios={
            name: _ratios(race.elapsed_ns[candidate], race.elapsed_ns[control], rules)
            for name, (control, candidate) in pairs.items()
            if {control, candidate} <= race.elapsed_ns.keys()
        },
        twins={
            arm: _ratios(again, race.elapsed_ns[arm], rules) for arm, again in race.again_ns.items()
        },
    )


def _percentiles(times: Nanoseconds, rules: Rules) -> dict[str, Estimate]:
    found = {
        name: clustered(
            times,
            percent,
            confidence=rules.confidence,
            resamples=rules.resamples,
            seed=rules.seed,
        )
        for name, percent in CLUSTERED.items()
    }
    for name, percent in FAR_TAIL.items():
        tail = order_interval(times, percent, confidence=rules.confidence)
        if tail is not None:
            found[name] = tail
    return found


def _ratios(candidate: Nanoseconds, control: Nanoseconds, rules: Rules) -> dict[str, Estimate]:
    found = {
        name: ratio(
            candidate,
            control,
            percent,
            confidence=rules.confidence,
            resamples=rules.resamples,
            seed=rules.seed,
        )
        for name, percent in RATIOS.items()
    }
    found["mean"] = mean_ratio(
        candidate,
        control,
        confidence=rules.confidence,
        resamples=rules.resamples,
        seed=rules.seed,
    )
    return found
