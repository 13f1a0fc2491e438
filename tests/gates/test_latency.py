"""latency_ratio and latency_ceiling: verdicts that rest on a clock."""

from __future__ import annotations

from typing import Any

import pytest

from harness.core.errors import EvidenceError
from harness.core.evidence import Race
from harness.core.gate import Finding, Verdict
from tests.gates import build

RATIO: dict[str, Any] = {"percent": "p95", "max_ratio": 2, "max_noise": 1.2, "min_queries": 50}
CEILING: dict[str, Any] = {
    "percent": "p95",
    "max_ms": 1.0,
    "machine": build.MACHINE,
    "max_noise": 1.2,
    "min_queries": 50,
}
BOTH = [("latency_ratio", RATIO), ("latency_ceiling", CEILING)]


def judged(rule: str, race: Race | None, **settings: object) -> Finding:
    return build.judge(rule, build.evidence(10, race=race), **settings)


@pytest.mark.parametrize("percent", ["p50", "p90", "p95", "p99", "mean"])
@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, Verdict.PASS), (2.0, Verdict.INCONCLUSIVE), (4.0, Verdict.FAIL)],
)
def test_ratio(percent: str, factor: float, verdict: Verdict) -> None:
    finding = judged(
        "latency_ratio", build.race(factor), **RATIO | {"percent": percent, "max_noise": 1.5}
    )
    assert finding.verdict is verdict
    assert finding.timed
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.5, Verdict.PASS), (1.4, Verdict.INCONCLUSIVE), (9.0, Verdict.FAIL)]
)
def test_ceiling(factor: float, verdict: Verdict) -> None:
    finding = judged("latency_ceiling", build.race(factor), **CEILING)
    assert finding.verdict is verdict
    assert finding.timed
    assert finding.unit == "ms"
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(0.72 * factor, rel=0.15)


@pytest.mark.parametrize(("rule", "settings"), BOTH)
def test_without_a_race_nothing_is_said(rule: str, settings: dict[str, Any]) -> None:
    finding = judged(rule, None, **settings)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.settle == "run: harness race"


@pytest.mark.parametrize(("rule", "settings"), BOTH)
@pytest.mark.parametrize("verified", [{"old": True, "new": False}, {"old": True}])
def test_speed_of_unverified_rankings_means_nothing(
    rule: str, settings: dict[str, Any], verified: dict[str, bool]
) -> None:
    finding = judged(rule, build.race(0.1, verified=verified), **settings)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "that new gave in the race were not verified" in finding.reason


@pytest.mark.parametrize(("rule", "settings"), BOTH)
@pytest.mark.parametrize("factor", [0.1, 50.0])
@pytest.mark.parametrize("drift", [0.6, 1.6])
def test_a_noisy_machine_neither_passes_nor_fails(
    rule: str, settings: dict[str, Any], factor: float, drift: float
) -> None:
    disturbed = build.times(100, 4, drift, 0.02, 3)
    finding = judged(rule, build.race(factor, again_ns={"old": disturbed}), **settings)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "machine too noisy: old against itself" in finding.reason


def test_a_candidate_that_is_noisy_against_itself_is_not_judged_either() -> None:
    race = build.race(1.0)
    twins = dict(race.again_ns) | {"new": build.times(100, 4, 3.0, 0.02, 5)}
    finding = judged("latency_ratio", build.race(1.0, again_ns=twins), **RATIO)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "new against itself" in finding.reason


def test_wide_noise_around_one_is_noise_too() -> None:
    finding = judged("latency_ratio", build.race(1.0, jitter=1.5, count=60), **RATIO)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "machine too noisy" in finding.reason


@pytest.mark.parametrize(("rule", "settings"), BOTH)
def test_without_a_twin_the_noise_is_unknown(rule: str, settings: dict[str, Any]) -> None:
    finding = judged(rule, build.race(0.1, again_ns={}), **settings)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "not raced against itself" in finding.reason


@pytest.mark.parametrize(("rule", "settings"), BOTH)
def test_an_arm_that_did_not_race_is_named(rule: str, settings: dict[str, Any]) -> None:
    race = build.race(0.1)
    only = build.race(0.1, elapsed_ns={"old": race.elapsed_ns["old"]})
    finding = judged(rule, only, **settings)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.reason.startswith("new did not take part")


@pytest.mark.parametrize(("rule", "settings"), BOTH)
def test_a_short_race_is_not_judged(rule: str, settings: dict[str, Any]) -> None:
    finding = judged(rule, build.race(0.1, count=49), **settings)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.settle == "race 1 more queries"


def test_a_budget_is_not_judged_on_another_machine() -> None:
    finding = judged("latency_ceiling", build.race(0.1), **CEILING | {"machine": "a big server"})
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "a big server" in finding.reason
    assert build.MACHINE in finding.reason


@pytest.mark.parametrize(("rule", "settings"), BOTH)
def test_a_time_that_wrapped_never_passes(rule: str, settings: dict[str, Any]) -> None:
    race = build.race(0.1)
    race.elapsed_ns["new"][5, 1] = -(2**60)
    with pytest.raises(EvidenceError, match="wrapped"):
        judged(rule, race, **settings)
