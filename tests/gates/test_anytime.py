"""anytime_overlap, anytime_failures and anytime_slow: live traffic, asked about at any time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.simulated_traffic import STREAMS, bound, independent, live
from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.gates import anytime_failures, anytime_overlap, anytime_slow
from harness.gates.base.live import LiveSettings
from tests.make import gate_inputs
from tests.stats.test_simulations import chance

NS = 1_000_000_000
pytestmark = pytest.mark.slow
MODULES = (anytime_failures, anytime_overlap, anytime_slow)
Floats = NDArray[np.float64]
OVERLAP = {"k": 10, "floor": 0.8, "min_pairs": 50, "block_pairs": 1, "block_s": 0}
FAILURES = {"max_share": 0.05, "min_pairs": 50, "block_pairs": 1, "block_s": 0}
SLOW = {"max_ratio": 2.0, "max_share": 0.05, "min_pairs": 50, "block_pairs": 1, "block_s": 0}
RULES = {
    "anytime_overlap": OVERLAP,
    "anytime_failures": FAILURES,
    "anytime_slow": SLOW,
}


def flags(count: int, share: float) -> NDArray[np.bool_]:
    """Give flags in a share that is exact in every stretch."""
    rises = np.diff(np.floor(np.arange(count + 1) * share + 1e-9))
    return np.asarray(rises > 0)


def traffic(**changed: Any) -> Traffic:  # noqa: ANN401  fields of Traffic
    nothing = np.zeros(0, dtype=np.int64)
    plain = Traffic(
        attempted=0,
        passed_over={},
        asked=np.ones(100, dtype=np.int64),
        failed=np.zeros(0, dtype=bool),
        failed_at=nothing,
        failures={},
        overlap={},
        overlap_at={},
        control_ns=nothing,
        candidate_ns=nothing,
        timed_at=nothing,
        since="2026-11-01T12:00:00+00:00",
        until="2026-11-02T12:00:00+00:00",
    )
    return replace(plain, **changed)


def of(rule: str, bad: NDArray[np.bool_], at: NDArray[np.int64] | None = None) -> Evidence:
    """Pairs of which some are bad in the sense of the rule, one a second or ``at`` their times."""
    control, at = np.full(len(bad), 1_000), NS * np.arange(len(bad)) if at is None else at
    slow = np.where(bad, 2_001, 2_000)
    found = {
        "anytime_overlap": traffic(overlap={10: np.where(bad, 0.0, 1.0)}, overlap_at={10: at}),
        "anytime_failures": traffic(failed=bad, failed_at=at, failures={"failed": int(bad.sum())}),
        "anytime_slow": traffic(control_ns=control, candidate_ns=slow, timed_at=at),
    }
    return gate_inputs.evidence(5, traffic=found[rule])


def judged(rule: str, evidence: Evidence, **changed: object) -> Finding:
    return gate_inputs.judge(rule, evidence, **{**RULES[rule], **changed})


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("share", "verdict"), [(0.0, Verdict.PASS), (0.5, Verdict.FAIL)])
def test_the_right_and_the_wrong_side_of_the_bound(
    rule: str, share: float, verdict: Verdict
) -> None:
    finding = judged(rule, of(rule, flags(400, share)))
    assert finding.verdict is verdict
    assert finding.estimate is not None
    assert finding.estimate.n == 400
    assert finding.timed


@pytest.mark.parametrize(("rule", "share"), [("anytime_overlap", 0.15), ("anytime_slow", 0.03)])
def test_near_the_bound_it_says_how_many_more_pairs_would_settle_it(
    rule: str, share: float
) -> None:
    finding = judged(rule, of(rule, flags(200, share)))
    assert finding.verdict is Verdict.INCONCLUSIVE
    more = int(finding.remedy.split()[1])
    assert finding.remedy == f"about {more} more pairs, if they come like these"
    before, after = (judged(rule, of(rule, flags(200 + n, share))) for n in (more // 2, 2 * more))
    assert before.verdict is Verdict.INCONCLUSIVE
    assert after.verdict is Verdict.PASS


def test_on_the_bound_no_number_of_pairs_is_promised() -> None:
    finding = judged("anytime_failures", of("anytime_failures", flags(200, 0.05)))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.remedy.startswith("more than 64 times the pairs")


@pytest.mark.parametrize("rule", RULES)
def test_no_traffic_is_left_open_and_names_the_command(rule: str) -> None:
    finding = judged(rule, gate_inputs.evidence(5))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.NO_EVIDENCE
    assert "harness traffic" in finding.remedy


@pytest.mark.parametrize("rule", RULES)
def test_too_few_pairs_are_left_open_whatever_they_say(rule: str) -> None:
    assert judged(rule, of(rule, flags(400, 0.0)), min_pairs=401).remedy == "1 more pair"
    assert judged(rule, of(rule, flags(400, 0.0)), min_pairs=400).verdict is Verdict.PASS
    nothing = gate_inputs.evidence(5, traffic=traffic())
    assert judged(rule, nothing).remedy == "50 more pairs"


@pytest.mark.parametrize("rule", RULES)
def test_a_mean_that_moved_on_the_right_side_is_left_open(rule: str) -> None:
    bad = np.concatenate([flags(2_000, 0.0), flags(8_000, 0.025)])
    finding = judged(rule, of(rule, bad), min_pairs=500)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.MOVED
    assert "begins after what changed" in finding.remedy


def test_a_mean_outside_its_interval_is_called_so() -> None:
    then = np.concatenate([np.where(flags(300, 0.1), 0.0, 1.0), np.full(60, 0.5)])
    at = {10: NS * np.arange(len(then))}
    seen = gate_inputs.evidence(5, traffic=traffic(overlap={10: then}, overlap_at=at))
    finding = judged("anytime_overlap", seen, floor=0.4)
    assert finding.estimate is not None
    assert finding.estimate.value < finding.estimate.low
    assert "the mean of now lies outside the interval" in finding.reason
    inside = judged("anytime_overlap", of("anytime_overlap", flags(300, 0.1)))
    assert "outside the interval" not in inside.reason


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shares", [(0.0, 0.6), (0.6, 0.0)])
def test_pairs_in_a_row_beyond_the_bound_fail(rule: str, shares: tuple[float, float]) -> None:
    bad = np.concatenate([flags(2_000, share) for share in shares])
    finding = judged(rule, of(rule, bad))
    assert finding.verdict is Verdict.FAIL
    first = 1 if shares[0] else 2_001
    assert f"from pair {first} to {first + 49} alone it was" in finding.reason


@pytest.mark.parametrize("rule", RULES)
def test_a_candidate_that_breaks_after_a_long_good_past_loses_its_pass(rule: str) -> None:
    past = flags(20_000, 0.0)
    assert judged(rule, of(rule, past)).verdict is Verdict.PASS
    broken = np.concatenate([past, np.ones(100, dtype=bool)])
    assert judged(rule, of(rule, broken)).verdict is Verdict.FAIL


def test_another_k_is_another_question() -> None:
    seen, at = {50: np.ones(400)}, {50: np.arange(400)}
    evidence = gate_inputs.evidence(5, traffic=traffic(overlap=seen, overlap_at=at))
    finding = judged("anytime_overlap", evidence)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "the log also has k of 50" in finding.reason
    assert judged("anytime_overlap", evidence, k=50).verdict is Verdict.PASS


def test_the_reason_counts_what_was_left_out_and_how_it_failed() -> None:
    failing = traffic(
        failed=flags(400, 0.2),
        failed_at=np.arange(400),
        failures={"timed out": 80},
        passed_over={"shed": 7, "stale": 0},
    )
    reason = judged("anytime_failures", gate_inputs.evidence(5, traffic=failing)).reason
    assert "(80 timed out)" in reason
    assert "over 400 pairs in 400 blocks of one pair, each taken to be independent" in reason
    assert reason.endswith("; 7 shed")


def test_a_value_that_is_no_share_is_refused() -> None:
    seen, at = {10: np.full(60, 1.5)}, {10: np.arange(60)}
    evidence = gate_inputs.evidence(5, traffic=traffic(overlap=seen, overlap_at=at))
    with pytest.raises(EvidenceError, match="outside"):
        judged("anytime_overlap", evidence)


def test_every_live_rule_waits_for_pairs() -> None:
    assert all(issubclass(module.Settings, LiveSettings) for module in MODULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_block_counts_once_and_one_that_is_not_over_does_not(rule: str) -> None:
    finding = judged(rule, of(rule, flags(415, 0.0)), block_pairs=20)
    assert "over 400 pairs in 20 blocks (20 pairs and 19 s in the middle)" in finding.reason
    assert "taken to be independent of each other" in finding.reason
    assert finding.estimate is not None
    assert finding.estimate.n == 400
    twenty = judged(rule, of(rule, flags(20, 0.0)), min_pairs=2)
    assert twenty.estimate is not None
    assert (finding.estimate.low, finding.estimate.high) == (
        twenty.estimate.low,
        twenty.estimate.high,
    )


@pytest.mark.parametrize("rule", RULES)
def test_blocks_that_hang_together_are_no_proof(rule: str) -> None:
    bad = np.tile(np.repeat([False, True], [4_900, 100]), 4)
    finding = judged(rule, of(rule, bad), block_pairs=20, min_pairs=20_000)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "but each block has a correlation of 0.80 with the next one" in finding.reason
    assert finding.cause is Cause.SAMPLE
    assert "longer blocks" in finding.remedy
    longer = judged(rule, of(rule, np.tile(bad, 5)), block_pairs=200, min_pairs=100_000)
    assert longer.verdict is Verdict.PASS


@pytest.mark.parametrize("rule", RULES)
def test_a_busy_hour_does_not_hide_behind_quiet_ones(rule: str) -> None:
    """Each minute is a block; one in fifty has a thousand pairs, and half of them are bad."""
    sizes = np.full(3_000, 20)
    sizes[25::50] = 1_000
    at = np.concatenate([
        NS * 61 * minute + np.linspace(0, 60 * NS, size).astype(np.int64)
        for minute, size in enumerate(sizes)
    ])
    bad = np.concatenate([flags(size, 0.5 if size > 20 else 0.0) for size in sizes])
    finding = judged(rule, of(rule, bad, at), block_pairs=20, block_s=60, min_pairs=10**5)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.SAMPLE
    assert "by pairs alone" in finding.remedy


@pytest.mark.parametrize("rule", RULES)
def test_two_blocks_are_the_fewest(rule: str) -> None:
    finding = judged(rule, of(rule, flags(70, 0.0)), block_pairs=40)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "70 pairs in 1 blocks" in finding.reason
    assert finding.cause is Cause.TOO_FEW
    assert finding.remedy == "10 more pairs"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rule", RULES)
def test_what_passed_once_passes_at_every_later_look(rule: str) -> None:
    """So one look after the last pair tells whether any of the looks passed."""
    bad = np.random.default_rng(3).random(300) < 0.01
    looks = [judged(rule, of(rule, bad[:n]), min_pairs=2).verdict for n in range(2, 301)]
    first = looks.index(Verdict.PASS)
    assert set(looks[:first]) == {Verdict.INCONCLUSIVE}
    assert set(looks[first:]) == {Verdict.PASS}


@pytest.mark.parametrize("rule", RULES)
def test_peeking_after_each_of_a_thousand_pairs_passes_falsely_as_rarely_as_it_says(
    rule: str,
) -> None:
    on = live(rule, independent, bound(rule), 100, 1_000)
    assert on.passed <= chance(0.025, 100)
    assert on.failed <= chance(0.05, 100)
    assert live(rule, independent, bound(rule) / 4, 20, 1_000).passing > 0.9


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["bursts of 5", "Markov, 5 on average", "AR(1), 0.9"])
def test_failures_in_bursts_pass_and_fail_in_blocks_as_rarely_as_it_says(name: str) -> None:
    stream, rule = STREAMS[name], "anytime_failures"
    alone = live(rule, stream, bound(rule), 60, 5_000)
    assert alone.passed > 0.2, "the fault that blocks are against is not there"
    good = live(rule, stream, bound(rule) / 2, 60, 5_000)
    assert good.failed > 0.2, "the fault that blocks are against is not there"
    blocks = live(rule, stream, bound(rule), 60, 5_000, block_pairs=20)
    assert blocks.passed <= chance(0.025, 60)
    assert blocks.failed <= chance(0.05, 60)
    well = live(rule, stream, bound(rule) / 4, 60, 5_000, block_pairs=20)
    assert well.failed <= chance(0.05, 60)
    assert well.passing > 0.7


def test_blocks_that_are_missing_are_asked_for_and_not_pairs() -> None:
    at = np.arange(20_000, dtype=np.int64)
    given = of("anytime_failures", flags(20_000, 0.0), at)
    found = gate_inputs.judge("anytime_failures", given, **FAILURES | {"block_s": 3600})
    assert "20000 pairs in 0 blocks, and 50 pairs and 2 blocks are needed" in found.reason
    assert found.cause is Cause.TOO_FEW
    assert found.remedy == "2 more blocks, of 3600 s each"
