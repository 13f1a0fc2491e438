"""latency_ratio and latency_ceiling: verdicts that rest on a clock."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.core.evidence import Race
from harness.core.gate import Cause, Finding, Verdict
from tests.make import gate_inputs

USUAL = {"percent": "p95", "max_noise": 1.3, "max_stolen": 0.02}
RATIO: dict[str, Any] = USUAL | {"max_ratio": 2}
CEILING: dict[str, Any] = USUAL | {"max_ms": 1.0, "reference_ms": 1.0, "max_scale": 2}
BOTH = [
    ("latency_ratio", RATIO),
    ("latency_ratio", RATIO | {"per_query": True}),
    ("latency_ceiling", CEILING),
]
BOTH_RULES = pytest.mark.parametrize(("rule", "settings"), BOTH)


def judged(rule: str, race: Race | None, **settings: object) -> Finding:
    return gate_inputs.judge(rule, gate_inputs.evidence(10, race=race), **settings)


@pytest.mark.parametrize("per_query", [False, True])
@pytest.mark.parametrize("percent", ["p50", "p90", "p95"])
@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, Verdict.PASS), (2.0, Verdict.INCONCLUSIVE), (4.0, Verdict.FAIL)]
)
def test_ratio(percent: str, factor: float, verdict: Verdict, *, per_query: bool) -> None:
    settings = RATIO | {"percent": percent, "per_query": per_query}
    finding = judged("latency_ratio", gate_inputs.race(factor), **settings)
    assert finding.verdict is verdict or (per_query and factor == 2)
    assert finding.timed
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.5, Verdict.PASS), (1.4, Verdict.INCONCLUSIVE), (9.0, Verdict.FAIL)]
)
def test_ceiling(factor: float, verdict: Verdict) -> None:
    finding = judged("latency_ceiling", gate_inputs.race(factor), **CEILING)
    assert finding.verdict is verdict
    assert finding.timed
    assert finding.unit == "ms"
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(0.72 * factor, rel=0.15)


@BOTH_RULES
def test_without_a_race_nothing_is_said(rule: str, settings: dict[str, Any]) -> None:
    finding = judged(rule, None, **settings)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.remedy == "run: harness race"


@BOTH_RULES
@pytest.mark.parametrize("verified", [{"old": True, "new": False}, {"old": True}])
def test_a_quick_arm_that_answers_otherwise_means_nothing(
    rule: str, settings: dict[str, Any], verified: dict[str, bool]
) -> None:
    finding = judged(rule, gate_inputs.race(0.1, verified=verified), **settings)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.IDENTITY)


@BOTH_RULES
@pytest.mark.parametrize("arm", ["old", "new"])
@pytest.mark.parametrize("factor", [0.1, 50.0])
@pytest.mark.parametrize("drift", [0.6, 1.6])
def test_a_machine_that_differs_from_process_to_process_neither_passes_nor_fails(
    rule: str, settings: dict[str, Any], factor: float, drift: float, arm: str
) -> None:
    race = gate_inputs.race(factor)
    for times in (race.elapsed_ns[arm], race.unseen_ns[arm]):
        times[1::2] = times[1::2] * drift
    finding = judged(rule, race, **settings)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.MACHINE)
    said = rf"machine too noisy: the p95 of {arm} in its slowest process is 1\.[67]"
    assert re.match(said, finding.reason)


TAKEN = {
    "waited": "its answers waited for a processor",
    "others": "other programs used the processors",
    "steal": "the hypervisor held",
    "throttled": "a quota held",
}


@BOTH_RULES
@pytest.mark.parametrize("arm", ["old", "new"])
@pytest.mark.parametrize("share", TAKEN)
def test_a_busy_machine_neither_passes_nor_fails(
    rule: str, settings: dict[str, Any], arm: str, share: str
) -> None:
    """A/A says 1: both halves of the processes waited alike, and so did both arms."""
    for factor in (0.1, 50.0):
        race = gate_inputs.race(factor)
        told = replace(race, stolen=dict(race.stolen) | {arm: gate_inputs.stolen(**{share: 0.021})})
        finding = judged(rule, told, **settings)
        assert finding.verdict is Verdict.INCONCLUSIVE
        assert finding.reason.startswith(f"machine too busy while {arm} was timed: {TAKEN[share]}")
        assert " 2.10% of the time, and the policy allows 2.00%" in finding.reason
        quiet = judged(rule, told, **settings | {"max_stolen": 0.021})
        assert quiet.verdict is (Verdict.PASS if factor < 1 else Verdict.FAIL)


@pytest.mark.parametrize(
    ("rule", "settings", "factor", "arm", "seen"),
    [
        ("latency_ratio", RATIO, 1.0, "new", Verdict.FAIL),
        ("latency_ceiling", CEILING, 1.0, "new", Verdict.FAIL),
        ("latency_ratio", RATIO, 4.0, "old", Verdict.PASS),
    ],
)
def test_a_verdict_that_waiting_made_is_none(
    rule: str, settings: dict[str, Any], factor: float, arm: str, seen: Verdict
) -> None:
    """A fifth of an arm's answers waited four fifths of their time: that is its p95."""
    race = gate_inputs.race(factor)
    held = np.tile(np.arange(100) % 5 == 0, (4, 1))
    race.unseen_ns[arm][held] *= 5
    took = race.elapsed_ns[arm]
    elapsed = dict(race.elapsed_ns) | {arm: np.where(held, 5 * took, took)}
    blind = judged(rule, replace(race, elapsed_ns=elapsed), **settings)
    assert blind.verdict is seen
    lost = dict(race.lost_ns) | {arm: np.where(held, 4 * took, 0)}
    finding = judged(rule, replace(race, elapsed_ns=elapsed, lost_ns=lost), **settings)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.MACHINE)
    assert finding.estimate == blind.estimate
    assert finding.remedy


@BOTH_RULES
@pytest.mark.parametrize("arm", ["old", "new"])
def test_an_arm_that_works_after_its_answers_is_named(
    rule: str, settings: dict[str, Any], arm: str
) -> None:
    race = gate_inputs.race(0.1)
    for beside, verdict in ((0.29, Verdict.PASS), (0.31, Verdict.INCONCLUSIVE)):
        stolen = dict(race.stolen) | {arm: gate_inputs.stolen(beside=beside)}
        finding = judged(rule, replace(race, stolen=stolen), **settings)
        assert finding.verdict is verdict
    assert finding.cause is Cause.OFF_CLOCK
    assert finding.reason.startswith(f"{arm} works off the clock: its other threads used 31%")


@BOTH_RULES
def test_one_process_says_nothing_of_others(rule: str, settings: dict[str, Any]) -> None:
    race = gate_inputs.race(0.1)
    one = {arm: times[:1] for arm, times in race.elapsed_ns.items()}
    finding = judged(rule, replace(race, elapsed_ns=one), **settings)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.TOO_FEW)


@BOTH_RULES
@pytest.mark.parametrize("factor", [0.5, 50.0])
def test_a_cache_that_arms_share_is_named_and_nothing_is_said(
    rule: str, settings: dict[str, Any], factor: float
) -> None:
    """Whoever comes second has the text for nothing; the median of first answers is half of it."""
    race = gate_inputs.race(factor)
    race.elapsed_ns["new"][race.turns["new"] > 0] //= 5_000
    finding = judged(rule, race, **settings)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.CACHE)


@BOTH_RULES
def test_a_cache_of_its_own_is_named_and_gains_nothing(rule: str, settings: dict[str, Any]) -> None:
    race = gate_inputs.race(50.0)
    assert "cache" not in judged(rule, race, **settings).reason
    race.repeated_ns["new"][:] //= 10_000
    finding = judged(rule, race, **settings)
    assert finding.verdict is Verdict.FAIL
    assert "new has a cache: a text that comes again takes 0.0001 of its first" in finding.reason


@BOTH_RULES
def test_answers_that_were_kept_from_before_the_race_settle_nothing(
    rule: str, settings: dict[str, Any]
) -> None:
    race = gate_inputs.race(0.1)
    for arm in ("old", "new"):
        kept = dict(race.unseen_ns) | {arm: race.unseen_ns[arm] * 100}
        finding = judged(rule, replace(race, unseen_ns=kept), **settings)
        assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.CACHE)
        assert f"{arm} keeps answers between processes" in finding.reason
        assert "of the time of other words that are as frequent" in finding.reason
    race.elapsed_ns["new"][0] *= 100
    told = replace(race, unseen_ns=kept)
    assert "new keeps answers between processes" in judged(rule, told, **settings).reason
    race.elapsed_ns["new"][0] //= 100
    none = {arm: times[:, :1] for arm, times in race.unseen_ns.items()}
    unknown = judged(rule, replace(race, unseen_ns=none), **settings)
    assert (unknown.verdict, unknown.cause) == (Verdict.INCONCLUSIVE, Cause.CACHE)
    assert "not every text was raced with other words" in unknown.reason


@BOTH_RULES
@pytest.mark.parametrize(("slower", "verdict"), [(1, Verdict.PASS), (30, Verdict.INCONCLUSIVE)])
def test_a_memo_of_the_slowest_texts_alone_decides_no_percentile(
    rule: str, settings: dict[str, Any], slower: int, verdict: Verdict
) -> None:
    """It hardly moves the mean over all texts, by which an engine that keeps answers is named."""
    race = gate_inputs.race(0.5, count=600)
    race.unseen_ns["new"][:, ::12] *= slower
    finding = judged(rule, race, **settings)
    assert finding.verdict is verdict
    if slower > 1:
        assert finding.cause is Cause.CACHE
        assert "with other words, as frequent and never given, it is" in finding.reason


def test_slow_queries_that_both_percentiles_hide_are_seen_query_by_query() -> None:
    """A tenth is ten times as slow, and those are the ones that were quick: no percentile moves."""
    race = gate_inputs.race(1.0, count=400)
    for times in (race.elapsed_ns["old"], race.elapsed_ns["new"]):
        times[:, ::5] *= 20
    race.elapsed_ns["new"][:, 1::10] *= 10
    assert judged("latency_ratio", race, **RATIO).verdict is Verdict.PASS
    finding = judged("latency_ratio", race, **RATIO | {"per_query": True, "max_ratio": 5})
    assert finding.verdict is Verdict.FAIL
    assert finding.bound == "p95 latency below 5 times the control's time for the same query"


@BOTH_RULES
def test_of_a_cluster_one_query_counts(rule: str, settings: dict[str, Any]) -> None:
    race = gate_inputs.race(0.1, count=150)
    clusters = {query_id: str(at // 2) for at, query_id in enumerate(race.query_ids)}
    evidence = replace(gate_inputs.evidence(10, race=race), clusters=clusters)
    finding = gate_inputs.judge(rule, evidence, **settings | {"percent": "p99", "max_noise": 2})
    assert finding.cause is Cause.TOO_FEW
    assert finding.reason.startswith("75 queries were raced")


@pytest.mark.parametrize(
    ("reference_ms", "factor", "verdict"),
    [
        (2.0, 1.4, Verdict.FAIL),
        (1.0, 1.4, Verdict.INCONCLUSIVE),
        (0.5, 1.4, Verdict.PASS),
        (0.49, 0.1, Verdict.INCONCLUSIVE),
        (2.1, 50.0, Verdict.INCONCLUSIVE),
    ],
)
def test_a_budget_is_scaled_by_the_reference_work(
    reference_ms: float, factor: float, verdict: Verdict
) -> None:
    """The work takes 1 ms here; a machine that took 0.5 ms for it has half the budget."""
    finding = judged(
        "latency_ceiling", gate_inputs.race(factor), **CEILING | {"reference_ms": reference_ms}
    )
    assert finding.verdict is verdict
    assert gate_inputs.MACHINE in finding.reason
    if finding.estimate:
        assert finding.estimate.value == pytest.approx(0.72 * factor * reference_ms, rel=0.15)
        assert f"budget scaled to {1 / reference_ms:.3g} ms" in finding.reason
    else:
        assert "further from 1 than a factor of 2" in finding.reason


@pytest.mark.parametrize(("per_query", "fewest"), [(False, 86), (True, 72)])
def test_the_fewest_queries_are_enough(per_query: bool, fewest: int) -> None:  # noqa: FBT001
    asked = RATIO | {"per_query": per_query, "percent": "p95"}
    few = judged("latency_ratio", gate_inputs.race(0.1, count=fewest - 1), **asked)
    assert few.cause is Cause.TOO_FEW
    assert few.remedy == "race 1 more query: race.queries in params.yaml"
    assert judged("latency_ratio", gate_inputs.race(0.1, count=fewest), **asked).estimate


def test_an_arm_that_did_not_race_is_named() -> None:
    race = gate_inputs.race(0.1)
    alone = replace(race, elapsed_ns={"old": race.elapsed_ns["old"]})
    finding = judged("latency_ratio", alone, **RATIO)
    assert finding.cause is Cause.NO_EVIDENCE
    assert finding.reason == "new did not take part in the race"
