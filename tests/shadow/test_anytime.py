"""Gates on live traffic, and doubts that keep it from a PASS."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.simulate_times import BOUND, COURSES, DAY_S, passed
from harness.agreement import Class
from harness.core.evidence import LOST, SHED, Evidence, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.core.run import Status
from harness.shadow.evidence import IN_ITS_PLACE, NO_CONTROL, OTHER_CONTROL, count_traffic
from harness.shadow.live import MOST_SHED
from harness.shadow.log import LogContents
from harness.shadow.record import Observation, SideObservation
from tests.make import gate_inputs
from tests.make.runs import chance
from tests.make.shadow_records import SEEN, observation

NS = 1_000_000_000
EACH_S = 600
A_DAY = DAY_S // EACH_S
"""Pairs of a day."""
LIVE = {"period": "day", "block_s": 1_200.0, "max_query_share": 0.1, "max_client_share": 0.1}


RULES: dict[str, dict[str, Any]] = {
    "anytime_overlap": {"k": 10, "floor": 0.8, **LIVE},
    "anytime_failures": {"max_share": 0.05, **LIVE},
    "anytime_slow": {"max_ratio": 2.0, "max_share": 0.05, **LIVE},
}
PAIRS = 1_400
ONES = np.ones(PAIRS, dtype=np.int64)


slow, each = pytest.mark.slow, pytest.mark.parametrize("rule", RULES)


def flags(count: int, share: float) -> NDArray[np.bool_]:
    """Return flags in a share that is exact in every stretch."""
    rises = np.diff(np.floor(np.arange(count + 1) * share + 1e-9))
    return np.asarray(rises > 0)


def traffic(**changed: Any) -> Traffic:  # noqa: ANN401  fields of Traffic
    nothing = np.zeros(0, dtype=np.int64)
    plain = Traffic(
        attempted=0, passed_over={}, asked=ONES[:100], largest_client=1,
        unnamed=0, failed=np.zeros(0, dtype=bool), failed_at=nothing, failures={}, overlap={},
        overlap_at={}, control_ns=nothing, candidate_ns=nothing, timed_at=nothing,
        since="2026-11-01T12:00:00+00:00", until="2026-11-02T12:00:00+00:00",
    )  # fmt: skip
    return replace(plain, **changed)


def of(rule: str, bad: NDArray[np.bool_], at: NDArray[np.int64] | None = None) -> Evidence:
    """Pairs of which some are bad in the sense of the rule, one each ``EACH_S``."""
    at = NS * EACH_S * np.arange(len(bad)) if at is None else at
    control, slow = np.full(len(bad), 1_000), np.where(bad, 2_001, 2_000)
    found = {
        "anytime_overlap": traffic(overlap={10: np.where(bad, 0.0, 1.0)}, overlap_at={10: at}),
        "anytime_failures": traffic(failed=bad, failed_at=at, failures={"failed": int(bad.sum())}),
        "anytime_slow": traffic(control_ns=control, candidate_ns=slow, timed_at=at),
    }
    return gate_inputs.evidence(5, traffic=found[rule])


def judged(rule: str, evidence: Evidence, **changed: object) -> Finding:
    return gate_inputs.judge(rule, evidence, **{**RULES[rule], **changed})


def check_open(finding: Finding, cause: Cause, why: str, remedy: str = "") -> None:
    """Check that a finding is inconclusive, with its cause, reason and remedy."""
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, cause)
    assert why in finding.reason
    assert remedy in finding.remedy


@slow
@each
def test_only_whole_periods_pass_and_two_are_the_fewest(rule: str) -> None:
    def after(pairs: int, **changed: object) -> Finding:
        return judged(rule, of(rule, flags(pairs, 0.0)), **changed)

    why = f"{2 * A_DAY} pairs in 1 whole day, and 2 are needed"
    check_open(after(2 * A_DAY), Cause.TOO_FEW, why, "1 more day of traffic")
    assert after(2 * A_DAY + 1).verdict is Verdict.PASS
    assert after(8 * A_DAY, period="week").remedy == "1 more week of traffic"
    assert after(14 * A_DAY + 1, period="week").verdict is Verdict.PASS
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
@pytest.mark.parametrize(("rule", "share"), [("anytime_overlap", 0.15), ("anytime_slow", 0.02)])
def test_near_the_bound_it_says_how_much_more_traffic_would_settle_it(
    rule: str, share: float
) -> None:
    finding = judged(rule, of(rule, flags(2 * A_DAY + 1, share)))
    check_open(finding, Cause.OPEN, "", " of traffic, if it comes like this")
    days = int(finding.remedy.split()[1])
    after = judged(rule, of(rule, flags((2 + days) * A_DAY + 1, share)))
    assert after.verdict is Verdict.PASS


@slow
@each
def test_no_traffic_is_left_open_and_names_the_command(rule: str) -> None:
    finding = judged(rule, gate_inputs.evidence(5))
    check_open(finding, Cause.NO_EVIDENCE, "", "harness shadow traffic")


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
    broken = judged(rule, of(rule, np.concatenate([past, np.ones(A_DAY // 3, dtype=bool)])))
    check_open(broken, Cause.SAMPLE, "but over the latest day the mean is")


@slow
@each
def test_bursts_that_outlast_a_block_are_no_proof(rule: str) -> None:
    bad = np.zeros(40 * A_DAY + 1, dtype=bool)
    bad[[at + 5 * A_DAY + step for at in (16, 704, 1_504) for step in range(16)]] = True
    finding = judged(rule, of(rule, bad))
    check_open(finding, Cause.SAMPLE, "but bursts last longer than a block", "longer blocks")
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


def on(rule: str, *, settings: dict[str, str] | None = None, **changed: object) -> Finding:
    """Judge traffic without a fault."""
    honest = of(rule, flags(PAIRS, 0.0)).of(Traffic)
    found = replace(honest, attempted=2 * PAIRS, **changed)  # type: ignore[arg-type]
    return judged(rule, gate_inputs.evidence(5, traffic=found), **(settings or {}))


MOST = int(MOST_SHED * 2 * PAIRS)
UNNAMED = {"asked": ONES, "unnamed": 7}
WHY = {"settings": {"assume_clients": "a login is needed, and each has a rate limit"}}
DOUBTS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "lost": ({"passed_over": {LOST: 600}}, "600 numbered", {"passed_over": {LOST: 2}}),
    "shed": (
        {"passed_over": {SHED: MOST + 1}}, "more than 50%", {"passed_over": {SHED: MOST}},
    ),
    "one query": (
        {"asked": np.array([PAIRS])}, "query has 100.0%", {"asked": np.full(10, PAIRS // 10)},
    ),
    "of many": ({"asked": np.array([200, *ONES[:1_200]])}, "query has 14.3%", {"asked": ONES}),
    "one client": (
        {"asked": ONES, "largest_client": int(0.3 * PAIRS)}, "client has 30.0%",
        {"asked": ONES, "largest_client": PAIRS // 10},
    ),
    "unknown": (UNNAMED, f"7 of {PAIRS} pairs name no client", {**UNNAMED, **WHY}),
    "assumed and too large": (
        {**UNNAMED, **WHY, "largest_client": 900}, "client has 64.3%", {"asked": ONES},
    ),
}  # fmt: skip


@each
@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_doubt_keeps_it_from_a_pass_and_a_smaller_one_does_not(rule: str, doubt: str) -> None:
    bad, says, good = DOUBTS[doubt]
    finding = on(rule, **bad)
    check_open(finding, Cause.SAMPLE, says)
    assert finding.remedy
    assert on(rule, **good).verdict is Verdict.PASS


OURS = replace(SEEN, served_by="old", elapsed_ns=100)
THEIRS = replace(SEEN, served_by="new", elapsed_ns=300)


def pair(number: int, outcome: Class = Class.OVERLAP, **changed: object) -> Observation:
    return observation(number, outcome, **{"control": OURS, "candidate": THEIRS, **changed})


def failing(status: Status, **changed: object) -> SideObservation:
    return replace(THEIRS, status=status, hits=0, top=None, served_by="", **changed)  # type: ignore[arg-type]


def counted(*observations: Observation, missing: int = 0, control: str = "old") -> Traffic:
    return count_traffic(
        LogContents(observations, (), (), missing), control=control, candidate="new"
    )


def test_values_come_in_the_order_of_the_attempts() -> None:
    found = counted(
        pair(1, jaccard=0.5),
        pair(2, jaccard=1.0, k=20),
        pair(3, Class.ERROR, jaccard=None, candidate=failing(Status.FAILED)),
        pair(4, jaccard=0.25),
        pair(5, Class.BOTH_EMPTY, jaccard=None),
        pair(6, Class.TIMEOUT, jaccard=None, candidate=failing(Status.TIMED_OUT)),
    )
    assert {k: values.tolist() for k, values in found.overlap.items()} == {10: [0.5, 0.25], 20: [1]}
    at = {k: (ns % 10).tolist() for k, ns in found.overlap_at.items()}
    assert at == {10: [1, 4], 20: [2]}
    assert found.failed.tolist() == [False, False, True, False, False, True]
    assert found.failures == {"failed": 1, "timed out": 1}
    times = found.control_ns.tolist(), found.candidate_ns.tolist()
    assert times == ([100] * 5, [300] * 5)
    assert (found.passed_over, found.attempted) == ({}, 6)


def test_an_answer_of_another_engine_is_a_failure_and_no_overlap() -> None:
    other = replace(THEIRS, served_by="fallback")
    found = counted(pair(1), pair(2, candidate=other))
    assert found.failures == {IN_ITS_PLACE: 1}
    assert len(found.overlap[10]) == 1
    assert len(found.control_ns) == 1


def test_what_tells_nothing_of_the_two_is_counted_beside() -> None:
    found = counted(
        pair(1),
        pair(2, Class.SHED, reason="queue full", candidate=None, jaccard=None),
        pair(3, Class.STALE, reason="moved", jaccard=None),
        pair(4, Class.SKIPPED, reason="no candidate", candidate=None, jaccard=None),
        pair(5, control=replace(OURS, served_by="someone")),
        pair(6, Class.ERROR, control=failing(Status.FAILED), jaccard=None),
        missing=2,
    )
    assert found.passed_over == {
        "shed": 1, "stale": 1, "skipped": 1, OTHER_CONTROL: 1, NO_CONTROL: 1, LOST: 2,
    }  # fmt: skip
    assert found.attempted == 8
    assert found.attempted == len(found.failed) + sum(found.passed_over.values())


def test_different_queries_are_counted_and_the_most_asked_comes_first() -> None:
    found = counted(*(pair(n, query=query) for n, query in enumerate("abcaaa", start=1)))
    assert found.asked.tolist() == [4, 1, 1]


def test_clients_are_counted_and_of_several_logs_the_worst_is_taken() -> None:
    """Keys of two logs do not meet, so the largest client of each may be the same."""
    names = [f"{at:032x}" for at in range(3)]
    found = counted(
        *(pair(at, client=names[at > 3]) for at in range(1, 6)),
        *(pair(at, client=names[2], writer="w2") for at in range(1, 3)),
        pair(3, writer="w2"),
        pair(6, Class.SHED, client=names[0]),
    )
    assert (found.largest_client, found.unnamed) == (3 + 2, 1)
