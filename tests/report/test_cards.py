"""The first screen: answers, what remains, and how evidence was kept."""

import math
from dataclasses import replace

import pytest

from harness.core.gate import OF_VERDICT, Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.gates.base.rules import Where
from harness.policy.looks import Looks
from harness.report.doc import Bar
from harness.report.inputs import Custody, JudgementCoverage, PinPart
from harness.report.page import cards
from harness.report.page.tables import kept_lines
from harness.report.rounding import MINUS
from tests.make import report_inputs

PASS = Finding("g", "floor", Verdict.PASS, Cause.KEPT, "fine", "b", Estimate(1, 1, 1, 1), 0.0, "u")
FAIL = replace(PASS, gate="h", verdict=Verdict.FAIL, cause=Cause.BROKEN, reason="harm")
OPEN = replace(
    PASS, gate="i", verdict=Verdict.INCONCLUSIVE, cause=Cause.OPEN, reason="unclear", remedy="more"
)


def step(*findings: Finding, taken: bool = False, blocked_by: str = "") -> StepDecision:
    return StepDecision("v2", "old", "new", taken, findings, blocked_by)


@pytest.mark.parametrize(
    ("decision", "expected", "words"),
    [
        (step(PASS), cards.Tone.PROMOTE, "May be taken"),
        (step(PASS, taken=True), cards.Tone.PROMOTE, "still passes"),
        (step(PASS, blocked_by="x"), cards.Tone.WAITS, "waits for x"),
        (step(PASS, OPEN), cards.Tone.UNSURE, "Cannot be decided yet"),
        (step(PASS, OPEN, taken=True), cards.Tone.UNSURE, "no longer supports"),
        (step(), cards.Tone.UNSURE, "no gate judged it"),
        (step(PASS, OPEN, FAIL), cards.Tone.HOLD, "May not be taken"),
        (step(FAIL, blocked_by="x"), cards.Tone.HOLD, "also waits for x"),
        (step(OPEN, FAIL, taken=True), cards.Tone.ROLLBACK, "Take it back"),
    ],
)
def test_every_decision_has_its_tone_and_words(
    decision: StepDecision, expected: cards.Tone, words: str
) -> None:
    found = cards.card(report_inputs.report(), decision, "d0-0")
    assert cards.tone(decision) is expected
    assert found.tone == expected.value
    assert words in cards.answer(decision)
    assert (found.tone == cards.Tone.PROMOTE.value) == (
        found.outcome == Outcome.PROMOTE.value.upper()
    )


GATE = Finding(
    "Names are found", "non_inferior", Verdict.FAIL, Cause.BROKEN, "it lost",
    "loses less than 0.02", Estimate(-0.05, -0.07, -0.03, 400), -0.02, "",
)  # fmt: skip
OPEN_HEADLINE = replace(GATE, verdict=Verdict.INCONCLUSIVE, cause=Cause.OPEN)
BUSY = replace(OPEN_HEADLINE, estimate=None, reason="too busy")
KEPT_GATE = replace(GATE, verdict=Verdict.PASS, cause=Cause.KEPT)
LOST = f"{MINUS}0.0500 [{MINUS}0.0700, {MINUS}0.0300]"
NAMES, ASKED = GATE.gate, "required: loses less than 0.02"
FAILS = replace(GATE, bound="less than 3 times the control's p95")
MORE = (GATE, replace(GATE, gate="b"), OPEN_HEADLINE, replace(OPEN_HEADLINE, gate="c"))
NOISY = (BUSY, replace(BUSY, gate="b"), replace(BUSY, gate="c", reason="no race"))


@pytest.mark.parametrize(
    ("decisions", "says"),
    [
        ((), ""),
        ((("a", KEPT_GATE),), "Yes to a."),
        ((("shadow", KEPT_GATE), ("b", KEPT_GATE)),
         "Yes to shadow (new beside old, unseen by users) and b."),
        ((("a", KEPT_GATE), ("b", KEPT_GATE), ("c", KEPT_GATE, "after")),
         "Yes to a and b; not yet to c."),
        ((("a", KEPT_GATE), ("b", GATE), ("c", OPEN_HEADLINE)),
         "Yes to a; no to b; not yet to c."),
        ((("a", FAILS),),
         f"No to a: Names are found fails ({LOST}, required: less than 3 times old's p95)."),
        ((("a", replace(GATE, estimate=None), "taken"), ("b", KEPT_GATE, "after")),
         "Take back a; not yet to b: Names are found fails (it lost)."),
        ((("a", replace(OPEN_HEADLINE, estimate=None)),),
         "Not yet to a: Names are found is inconclusive (it lost)."),
        ((("a", *MORE),),
         f"No to a: {NAMES} fails ({LOST}, {ASKED}; 1 more failed and 2 more inconclusive)."),
        ((("a", *NOISY),),
         f"Not yet to a: {NAMES} and 1 more are inconclusive (too busy; 1 more inconclusive)."),
        ((("a", KEPT_GATE, "taken"), ("b", KEPT_GATE), ("c", KEPT_GATE, "after")),
         "Keep a; yes to b; not yet to c."),
        ((("a", BUSY, "taken"), ("b", KEPT_GATE)),
         "Yes to b; no longer proven: a: Names are found is inconclusive (too busy)."),
    ],
)  # fmt: skip
def test_the_answer_is_one_sentence(
    decisions: tuple[tuple[str | Finding, ...], ...], says: str
) -> None:
    made = []
    for name, *rest in decisions:
        findings = tuple(one for one in rest if isinstance(one, Finding))
        after = "x" if "after" in rest else ""
        made.append(StepDecision(str(name), "old", "new", "taken" in rest, findings, after))
    assert cards.headline(made, {}) == says


def test_what_several_gates_say_is_said_once() -> None:
    others = (replace(BUSY, gate=name) for name in ("p95", "p99"))
    assert cards.because((GATE, BUSY, *others, replace(OPEN_HEADLINE, gate="c")), "old") == (
        f"✕ {NAMES}: {LOST}, {ASKED}",
        f"? {NAMES} and 2 more: too busy",
        f"? c: {LOST}, {ASKED}",
    )


QUERIES = 1_600


def gate(
    name: str, remedy: str = "", *, n: int = QUERIES, verdict: Verdict = Verdict.INCONCLUSIVE
) -> Finding:
    seen = Estimate(0.0, -0.1, 0.1, n)
    return Finding(name, "", verdict, OF_VERDICT[verdict], "", "", seen, 0.0, "", remedy)


def words(*findings: Finding, taken: bool = False, blocked_by: str = "") -> list[str]:
    decision = step(*findings, taken=taken, blocked_by=blocked_by)
    return [need.words for need in cards.remains(decision, QUERIES)]


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
    for order in ((SHARE, PART), (PART, SHARE)):
        said = cards.headline((step(*order),), {})
        assert said.startswith("Not yet to v2: Identifiers is inconclusive ("), said


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
    assert words(SHARE, gate("Gain", never), gate("MRR", sample(206))) == [cards.HOPELESS]


def test_samples_are_needed_beside_queries_each_with_its_command() -> None:
    asked = gate("MRR", sample(206)), gate("Gain", sample(521)), gate("Mean", sample(90, "nDCG@10"))
    enough = "unjudged hits (enough if none is relevant)"
    queries, samples = cards.remains(step(SHARE, *asked), QUERIES)
    assert queries == cards.RemainingWork("about 2,048 queries like these (now 1,600)")
    assert samples.words == f"judged samples of 521 and 90 {enough}"
    assert samples.commands == (pool(521), pool(90, "nDCG@10"))
    assert words(asked[0]) == [f"a judged sample of 206 {enough}"]


def test_a_failure_needs_another_candidate_and_a_step_waits_for_the_one_before() -> None:
    lost = gate("Names", verdict=Verdict.FAIL)
    assert words(lost, SHARE) == ["a candidate that passes Names"]
    assert words(lost, replace(lost, gate="b")) == ["a candidate that passes Names and 1 more"]
    assert words(lost, taken=True) == ["take the step back"]
    kept = gate("Names", verdict=Verdict.PASS)
    assert words(kept, blocked_by="shadow") == ["the step shadow first"]
    assert words(kept) == []


@pytest.mark.parametrize(
    ("estimate", "limit", "expected"),
    [
        (Estimate(3.0, 2.0, 5.0, 9), 1.0, Bar(0.25, 0.5, 1.0)),
        (Estimate(-0.5, -1.0, 0.5, 9), 0.0, Bar(-1.0, -0.5, 0.5)),
        (Estimate(0.0, 0.0, 0.0, 9), 0.0, Bar(0.0, 0.0, 0.0)),
        (Estimate(3.9, 3.4, math.inf, 9), 3.0, Bar(0.4 / 0.9, 1.0, cards.BEYOND)),
        (Estimate(1.0, -math.inf, 2.0, 9), 0.0, Bar(-cards.BEYOND, 0.5, 1.0)),
        (None, 1.0, None),
        (Estimate(1, 1, 1, 1), None, None),
        (Estimate(math.nan, 0, 1, 1), 0.0, None),
    ],
)
def test_the_furthest_finite_end_lies_at_one(
    estimate: Estimate | None, limit: float | None, expected: Bar | None
) -> None:
    found = cards.bar(replace(PASS, estimate=estimate, limit=limit))
    assert found == (pytest.approx(expected) if expected else None)


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ("above", (0.0, cards.EDGE)),
        ("below", (-cards.EDGE, 0.0)),
        ("within", (-0.8, 0.0)),  # from -0.1 to 0.1, and the low end lies 0.25 below the bound
        (None, None),
    ],
)
def test_the_side_that_passes_ends_at_the_bound(
    passes: Where | None, expected: tuple[float, float] | None
) -> None:
    seen = replace(PASS, estimate=Estimate(0.0, -0.15, 0.05, 9), limit=0.1)
    found = cards.allowed(seen, passes)
    assert found == (pytest.approx(expected) if expected else None)


FIRST = Looks(1, 1, 0, 0.025, (), ())


def pinned(at: str | None, times: int, *differences: str) -> PinPart:
    command = "harness policy pin p.toml"
    return PinPart(command=command, pinned_at=at, times=times, differences=differences)


JUDGED = JudgementCoverage(1600, 1440, 12, 0, {})
KEPT = Custody(JUDGED, pinned(None, 0), 1, "0" * 64, None, {"tantivy": FIRST})


@pytest.mark.parametrize(
    ("pin", "says"),
    [
        (pinned(None, 0),
         "Query set not pinned: removed queries would go unnoticed. Pin it: harness policy pin"),
        (pinned("2026-03-01", 1), "As pinned on 2026-03-01: queries, judgements and race"),
        (pinned("2026-03-01", 2), "As pinned on 2026-03-01 (second pin): queries"),
        (pinned("2026-03-01", 4, "1 query added (b)", "race k is 20, pinned 50"),
         "NOT AS PINNED on 2026-03-01: 1 query added (b); race k is 20, pinned 50."),
    ],
)  # fmt: skip
def test_the_pin_is_the_second(pin: PinPart, says: str) -> None:
    assert [*kept_lines(replace(KEPT, pin=pin))][1].startswith(says)


def test_looks_are_the_last() -> None:
    assert [*kept_lines(KEPT)][-2] == "Every step is judged for the first time."
    earlier = (("2026-02-01", "promote"), ("2026-02-02", "hold"), ("2026-02-03", "hold"))
    fourth = Looks(2, 4, 2, 0.1, ("another race",), earlier)
    again = replace(KEPT, number=5, looks={"a": FIRST, "tantivy": fourth})
    assert [*kept_lines(again)][-1] == (
        "tantivy: 4th look (2 at results, 4 at times, 2 of them races that no gate judged; the"
        " larger counts). Earlier outcomes: promote on 2026-02-01, hold 2 times, last on"
        " 2026-02-03. Changed since the last look: another race."
    )
    resumed = replace(again, looks={"tantivy": replace(fourth, resumed=3)})
    assert "larger counts; races resumed after a stop: 3)." in [*kept_lines(resumed)][-1]
