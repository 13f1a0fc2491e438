"""What remains for a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Cause, Finding, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report.page.remains import HOPELESS, Need, remains

QUERIES = 1_600
BUSY = "end the other programs, then run: harness race"


def gate(
    name: str, remedy: str = "", *, n: int = QUERIES, verdict: Verdict = Verdict.INCONCLUSIVE,
    timed: bool = False,
) -> Finding:  # fmt: skip
    cause = {Verdict.PASS: Cause.KEPT, Verdict.FAIL: Cause.BROKEN}.get(verdict, Cause.OPEN)
    seen = Estimate(0.0, -0.1, 0.1, n)
    return Finding(name, "", verdict, cause, "", "", seen, 0.0, "", remedy, timed=timed)


def step(*findings: Finding, taken: bool = False, blocked_by: str = "") -> StepDecision:
    return StepDecision("v2", "old", "new", taken, findings, blocked_by)


def words(*findings: Finding) -> list[str]:
    return [need.words for need in remains(step(*findings), QUERIES)]


def pool(size: int, measure: str = "RR@10") -> str:
    return f"harness pool --measure {measure} --order sample --size {size} --out pool.qrels"


def sample(size: int, measure: str = "RR@10") -> str:
    which = "which settles it if none is relevant"
    return f"judge a sample of {size:,} of the 20,062 unjudged hits, {which}: {pool(size, measure)}"


SHARE = gate("Unanswered", "about 2048 queries in clusters like these, if no more than the 0 seen")
PART = gate("Identifiers", "about 700 judged queries (now 400) for power 0.8", n=400)


def test_the_largest_need_of_all_open_gates_decides_a_step() -> None:
    assert words(SHARE) == ["about 2,048 queries like these (now 1,600)"]
    both = ["about 2,800 queries like these (now 1,600), 700 of them for Identifiers (now 400)"]
    assert words(SHARE, PART) == words(PART, SHARE) == both
    passed = gate("Other", "about 90,000 judged queries", verdict=Verdict.PASS)
    assert words(PART, passed) == both


@pytest.mark.parametrize(
    ("remedy", "every"),
    [
        ("judge 400 more independent queries", 2_000),
        ("names (30 of 60 queries)", 3_200),
        ("names (30 of 60 queries); about 6,400 judged queries (now 1,600)", 6_400),
        ("2,200 independent queries, if no more of them go wrong", 2_200),
    ],
)
def test_every_way_to_ask_for_queries_is_understood(remedy: str, every: int) -> None:
    assert words(gate("a", remedy))[0].startswith(f"about {every:,} queries like these")


def test_no_number_of_queries_stands_beside_one_that_hardly_helps() -> None:
    never = "about 12,695 judged queries (now 202): more queries will hardly help, change it"
    assert words(SHARE, gate("Gain", never), gate("MRR", sample(206))) == [HOPELESS]


def test_samples_are_needed_beside_queries_each_with_its_command() -> None:
    asked = gate("MRR", sample(206)), gate("Gain", sample(521)), gate("Mean", sample(90, "nDCG@10"))
    found = remains(step(SHARE, *asked), QUERIES)
    assert found == (
        Need("about 2,048 queries like these (now 1,600)"),
        Need(
            "judged samples of 521 and 90 unjudged hits (enough if none is relevant)",
            (pool(521), pool(90, "nDCG@10")),
        ),
    )
    one = remains(step(asked[0]), QUERIES)
    assert one[0].words == "a judged sample of 206 unjudged hits (enough if none is relevant)"


def test_other_remedies_are_said_once() -> None:
    more = "more than 1600 queries or a quieter machine in: harness race"
    found = words(
        gate("p95", BUSY, timed=True), gate("p99", f"{BUSY}."), gate("b", more, timed=True)
    )
    assert found == [BUSY, more]


def test_a_failure_needs_another_candidate_and_a_step_waits_for_the_one_before() -> None:
    lost = gate("Names", verdict=Verdict.FAIL)
    assert words(lost, SHARE) == ["a candidate that passes Names"]
    assert words(lost, replace(lost, gate="b")) == ["a candidate that passes Names and 1 more"]
    assert remains(step(lost, taken=True), QUERIES) == (Need("take the step back"),)
    kept = step(gate("Names", verdict=Verdict.PASS), blocked_by="shadow")
    assert remains(kept, QUERIES) == (Need("the step shadow first"),)
    assert remains(replace(kept, blocked_by=""), QUERIES) == ()
