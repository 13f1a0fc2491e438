"""Gates on live traffic, and doubts that keep it from a PASS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.simulate_times import BOUND, COURSES, DAY_S, Course, passed
from harness.core.errors import EvidenceError
from harness.core.evidence import LOST, SHED, Evidence, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.gates.base import rules
from harness.shadow.live import MOST_SHED, LiveSettings
from tests.make import gate_inputs
from tests.make.runs import chance

NS = 1_000_000_000
EACH_S = 600
A_DAY = DAY_S // EACH_S
"""Pairs of a day."""
Floats = NDArray[np.float64]
LIVE = {"period": "day", "block_s": 1_200.0, "max_query_share": 0.1, "max_client_share": 0.1}
RULES: dict[str, dict[str, Any]] = {
    "anytime_overlap": {"k": 10, "floor": 0.8, **LIVE},
    "anytime_failures": {"max_share": 0.05, **LIVE},
    "anytime_slow": {"max_ratio": 2.0, "max_share": 0.05, **LIVE},
}


slow, each = pytest.mark.slow, pytest.mark.parametrize("rule", RULES)


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
        largest_client=1,
        unnamed=0,
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


def every(pairs: int, seconds: float = EACH_S) -> NDArray[np.int64]:
    """Give times, one pair each ``seconds``."""
    found: NDArray[np.int64] = np.rint(NS * seconds * np.arange(pairs)).astype(np.int64)
    return found


def of(rule: str, bad: NDArray[np.bool_], at: NDArray[np.int64] | None = None) -> Evidence:
    """Pairs of which some are bad in the sense of the rule."""
    control, at = np.full(len(bad), 1_000), every(len(bad)) if at is None else at
    slow = np.where(bad, 2_001, 2_000)
    found = {
        "anytime_overlap": traffic(overlap={10: np.where(bad, 0.0, 1.0)}, overlap_at={10: at}),
        "anytime_failures": traffic(failed=bad, failed_at=at, failures={"failed": int(bad.sum())}),
        "anytime_slow": traffic(control_ns=control, candidate_ns=slow, timed_at=at),
    }
    return gate_inputs.evidence(5, traffic=found[rule])


def judged(rule: str, evidence: Evidence, **changed: object) -> Finding:
    return gate_inputs.judge(rule, evidence, **{**RULES[rule], **changed})


@slow
@each
@pytest.mark.parametrize(("share", "verdict"), [(0.0, Verdict.PASS), (0.5, Verdict.FAIL)])
def test_the_right_and_the_wrong_side_of_the_bound(
    rule: str, share: float, verdict: Verdict
) -> None:
    finding = judged(rule, of(rule, flags(400, share)))
    assert finding.verdict is verdict
    assert finding.estimate is not None
    assert finding.estimate.n == 2 * A_DAY, "what comes after the last whole day waits"
    assert finding.timed
    assert "in 2 whole days and 144 blocks of 1200 s, taken to be independent" in finding.reason


@slow
@each
def test_only_whole_periods_pass_and_two_are_the_fewest(rule: str) -> None:
    nearly = judged(rule, of(rule, flags(2 * A_DAY, 0.0)))
    assert nearly.verdict is Verdict.INCONCLUSIVE
    assert nearly.cause is Cause.TOO_FEW
    assert f"{2 * A_DAY} pairs in 1 whole day, and 2 are needed" in nearly.reason
    assert nearly.remedy == "1 more day of traffic"
    assert judged(rule, of(rule, flags(2 * A_DAY + 1, 0.0))).verdict is Verdict.PASS
    week = judged(rule, of(rule, flags(8 * A_DAY, 0.0)), period="week")
    assert week.remedy == "1 more week of traffic"
    assert judged(rule, of(rule, flags(14 * A_DAY + 1, 0.0)), period="week").verdict is Verdict.PASS
    nothing = judged(rule, gate_inputs.evidence(5, traffic=traffic()))
    assert nothing.remedy == "2 more days of traffic"


@slow
@each
def test_a_quiet_night_does_not_speak_for_the_day(rule: str) -> None:
    """Nothing fails at night and much by day, and the log begins in the evening."""
    night = np.arange(3 * A_DAY) % A_DAY < A_DAY // 2
    bad = ~night & flags(3 * A_DAY, 0.8 if rule == "anytime_overlap" else 0.25)
    for pairs in range(A_DAY // 2, 3 * A_DAY, 24):
        assert judged(rule, of(rule, bad[:pairs])).verdict is not Verdict.PASS


@slow
@each
def test_a_course_of_the_day_that_keeps_the_bound_is_no_burst(rule: str) -> None:
    day = (np.arange(6 * A_DAY + 1) % A_DAY < A_DAY // 2) & flags(6 * A_DAY + 1, 0.02)
    assert judged(rule, of(rule, day)).verdict is Verdict.PASS


@slow
@pytest.mark.parametrize(("rule", "share"), [("anytime_overlap", 0.15), ("anytime_slow", 0.02)])
def test_near_the_bound_it_says_how_much_more_traffic_would_settle_it(
    rule: str, share: float
) -> None:
    finding = judged(rule, of(rule, flags(2 * A_DAY + 1, share)))
    assert finding.verdict is Verdict.INCONCLUSIVE
    days = int(finding.remedy.split()[1])
    assert finding.remedy.endswith(" of traffic, if it comes like this")
    after = judged(rule, of(rule, flags((2 + days) * A_DAY + 1, share)))
    assert after.verdict is Verdict.PASS


@slow
def test_on_the_bound_no_amount_of_traffic_is_promised() -> None:
    finding = judged("anytime_failures", of("anytime_failures", flags(2 * A_DAY + 1, 0.05)))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "more traffic will not help" in finding.remedy


@slow
@each
def test_no_traffic_is_left_open_and_names_the_command(rule: str) -> None:
    finding = judged(rule, gate_inputs.evidence(5))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.NO_EVIDENCE
    assert "harness shadow traffic" in finding.remedy


@slow
@each
def test_one_period_beyond_the_bound_fails(rule: str) -> None:
    bad = np.concatenate([flags(20 * A_DAY, 0.0), flags(A_DAY, 0.6), flags(20 * A_DAY, 0.0)])
    finding = judged(rule, of(rule, bad))
    assert finding.verdict is Verdict.FAIL
    assert "on day 21 alone it was" in finding.reason


@slow
def test_a_later_day_needs_more_to_fail_alone() -> None:
    """So that all days together fail a good candidate as rarely as one alone."""
    good, rule = flags(A_DAY, 0.0), "anytime_failures"
    for share in np.arange(0.06, 0.9, 0.02).tolist():
        bad, days = flags(A_DAY, share), [good] * 20
        first = judged(rule, of(rule, np.concatenate([bad, *days])))
        if first.verdict is Verdict.FAIL:
            break
    assert judged(rule, of(rule, np.concatenate([*days, bad, good]))).verdict is not Verdict.FAIL
    assert "on day 1 alone it was" in first.reason


@slow
@each
def test_a_candidate_that_breaks_after_a_long_good_past_loses_its_pass(rule: str) -> None:
    past = flags(20 * A_DAY, 0.0)
    assert judged(rule, of(rule, past)).verdict is Verdict.PASS
    broken = np.concatenate([past, np.ones(A_DAY // 3, dtype=bool)])
    finding = judged(rule, of(rule, broken))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "but over the latest day the mean is" in finding.reason
    assert finding.cause is Cause.SAMPLE


@slow
def test_another_k_is_another_question() -> None:
    seen, at = {50: np.ones(400)}, {50: every(400)}
    evidence = gate_inputs.evidence(5, traffic=traffic(overlap=seen, overlap_at=at))
    finding = judged("anytime_overlap", evidence)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "the log also has k of 50" in finding.reason
    assert judged("anytime_overlap", evidence, k=50).verdict is Verdict.PASS


@slow
def test_the_reason_counts_what_was_left_out_and_how_it_failed() -> None:
    failing = traffic(
        failed=flags(400, 0.2),
        failed_at=every(400),
        failures={"timed out": 80},
        passed_over={"shed": 7, "stale": 0},
    )
    reason = judged("anytime_failures", gate_inputs.evidence(5, traffic=failing)).reason
    assert "(80 timed out)" in reason
    assert "; 7 shed" in reason
    assert "stale" not in reason


@slow
def test_a_value_that_is_no_share_is_refused() -> None:
    seen, at = {10: np.full(60, 1.5)}, {10: np.arange(60)}
    evidence = gate_inputs.evidence(5, traffic=traffic(overlap=seen, overlap_at=at))
    with pytest.raises(EvidenceError, match="outside"):
        judged("anytime_overlap", evidence)


@slow
def test_every_live_rule_waits_for_whole_periods() -> None:
    assert all(issubclass(rules.load(rule).settings, LiveSettings) for rule in RULES)


@slow
@each
def test_bursts_that_outlast_a_block_are_no_proof(rule: str) -> None:
    bad = np.zeros(40 * A_DAY + 1, dtype=bool)
    bad[[at + 5 * A_DAY + step for at in (16, 704, 1_504) for step in range(16)]] = True
    finding = judged(rule, of(rule, bad))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "but bursts last longer than a block" in finding.reason
    assert finding.cause is Cause.SAMPLE
    assert "longer blocks" in finding.remedy
    longer = judged(rule, of(rule, np.tile(bad[:-1], 8)), block_s=16 * EACH_S)
    assert longer.verdict is Verdict.PASS


@slow
@each
def test_a_busy_hour_does_not_hide_behind_quiet_ones(rule: str) -> None:
    """One hour of each day has most pairs, and in it half are bad."""
    sizes = np.tile([200, *([2] * 23)], 10)
    at = np.concatenate([
        NS * (3_600 * hour + np.linspace(0, 3_500, size)).astype(np.int64)
        for hour, size in enumerate([*sizes, 1])
    ])
    bad = np.concatenate([flags(size, 0.5 if size > 2 else 0.0) for size in [*sizes, 1]])
    assert judged(rule, of(rule, bad, at)).verdict is Verdict.FAIL


@slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", [name for name, course in COURSES.items() if course.share == BOUND]
)
def test_traffic_on_the_bound_passes_on_any_day_as_rarely_as_it_says(name: str) -> None:
    assert passed(COURSES[name], 4, 60, bound=BOUND).ever <= chance(0.025, 60)


@slow
def test_good_traffic_passes_and_an_outage_is_seen_where_blocks_are_as_long() -> None:
    good = COURSES["single failures, a quarter of the bound"]
    assert passed(good, 6, 20, bound=BOUND).last > 0.9
    outages = Course(0.01, outage_s=(1_800, 1_801), pairs_s=0.3)
    short = passed(outages, 2, 60, bound=0.01, block_s=60)
    assert short.ever > 0.2, "the fault that long blocks are against is not there"
    assert passed(outages, 2, 60, bound=0.01).ever <= chance(0.025, 60)


PAIRS = 1_400


def on(rule: str, *, settings: dict[str, str] | None = None, **changed: object) -> Finding:
    """Judge traffic without a fault."""
    honest = of(rule, flags(PAIRS, 0.0)).of(Traffic)
    found = replace(honest, attempted=2 * PAIRS, **changed)  # type: ignore[arg-type]
    return judged(rule, gate_inputs.evidence(5, traffic=found), **(settings or {}))


MOST = int(MOST_SHED * 2 * PAIRS)
ONES = np.ones(PAIRS, dtype=np.int64)
WHY = {"assume_clients": "a login is needed, and each has a rate limit"}


@each
@pytest.mark.parametrize(
    ("bad", "says", "good"),
    [
        pytest.param(
            {"passed_over": {LOST: 600}},
            "but 600 numbered attempts are not in the log; if all of them were bad",
            {"passed_over": {LOST: 2}},
            id="lost",
        ),
        pytest.param(
            {"passed_over": {SHED: MOST + 1}},
            f"{MOST + 1} of {2 * PAIRS} attempts were shed, more than 50%",
            {"passed_over": {SHED: MOST}},
            id="shed",
        ),
        pytest.param(
            {"asked": np.array([PAIRS])},
            "but one query has 100.0% of the pairs, and 10.0% is the most",
            {"asked": np.full(10, PAIRS // 10)},
            id="one query",
        ),
        pytest.param(
            {"asked": np.array([200, *([1] * 1_200)])},
            "but one query has 14.3% of the pairs, and 10.0% is the most",
            {"asked": ONES},
            id="a query of many",
        ),
        pytest.param(
            {"asked": ONES, "largest_client": int(0.3 * PAIRS)},
            "but one client has 30.0% of the pairs, and 10.0% is the most",
            {"asked": ONES, "largest_client": PAIRS // 10},
            id="one client",
        ),
        pytest.param(
            {"asked": ONES, "unnamed": 7},
            f"but 7 of {PAIRS} pairs name no client",
            {"asked": ONES, "unnamed": 7, "settings": WHY},
            id="unknown clients",
        ),
        pytest.param(
            {"asked": ONES, "unnamed": 7, "largest_client": 900, "settings": WHY},
            "but one client has 64.3% of the pairs, and 10.0% is the most",
            {"asked": ONES},
            id="clients assumed and one too large",
        ),
    ],
)
def test_a_doubt_keeps_it_from_a_pass_and_a_smaller_one_does_not(
    rule: str, bad: dict[str, Any], says: str, good: dict[str, Any]
) -> None:
    finding = on(rule, **bad)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.SAMPLE)
    assert says in finding.reason
    assert finding.remedy
    assert on(rule, **good).verdict is Verdict.PASS


def test_what_the_policy_assumes_of_clients_is_in_the_reason() -> None:
    found = on("anytime_slow", asked=ONES, unnamed=7, settings=WHY)
    assert "clients are taken to be many: a login is needed" in found.reason
    assert "assume_clients" in on("anytime_slow", asked=ONES, unnamed=7).remedy
