"""All steps in one sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Cause, Finding, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report.page.cards import because, headline
from harness.report.rounding import MINUS

GATE = Finding(
    "Names are found", "non_inferior", Verdict.FAIL, Cause.BROKEN, "it lost",
    "loses less than 0.02", Estimate(-0.05, -0.07, -0.03, 400), -0.02, "",
)  # fmt: skip
OPEN = replace(GATE, verdict=Verdict.INCONCLUSIVE, cause=Cause.OPEN)
BUSY = replace(OPEN, estimate=None, reason="too busy")
PASS = replace(GATE, verdict=Verdict.PASS, cause=Cause.KEPT)
LOST = f"{MINUS}0.0500 [{MINUS}0.0700, {MINUS}0.0300]"


def step(name: str, *findings: Finding, taken: bool = False, after: str = "") -> StepDecision:
    return StepDecision(name, "old", "new", taken, findings, after)


@pytest.mark.parametrize(
    ("decisions", "says"),
    [
        ((), ""),
        ((step("a", PASS),), "Yes to a."),
        (
            (step("shadow", PASS), step("b", PASS)),
            "Yes to shadow (new beside old, unseen by users) and b.",
        ),
        (
            (step("a", PASS), step("b", PASS), step("c", PASS, after="x")),
            "Yes to a and b; not yet to c.",
        ),
        ((step("a", PASS), step("b", GATE), step("c", OPEN)), "Yes to a; no to b; not yet to c."),
        (
            (step("a", replace(GATE, bound="less than 3 times the control's p95")),),
            (f"No to a: Names are found fails ({LOST}, required: less than 3 times old's p95)."),
        ),
        (
            (step("a", replace(GATE, estimate=None), taken=True), step("b", PASS, after="a")),
            "Take back a; not yet to b: Names are found fails (it lost).",
        ),
        (
            (step("a", replace(OPEN, estimate=None)),),
            "Not yet to a: Names are found is inconclusive (it lost).",
        ),
        (
            (step("a", GATE, replace(GATE, gate="b"), OPEN, replace(OPEN, gate="c")),),
            (
                f"No to a: Names are found fails ({LOST}, required: loses less than 0.02;"
                " 1 more failed and 2 more inconclusive)."
            ),
        ),
        (
            (step("a", BUSY, replace(BUSY, gate="b"), replace(BUSY, gate="c", reason="no race")),),
            (
                "Not yet to a: Names are found and 1 more are inconclusive (too busy; 1 more"
                " inconclusive)."
            ),
        ),
        (
            (step("a", PASS, taken=True), step("b", PASS), step("c", PASS, after="b")),
            "Keep a; yes to b; not yet to c.",
        ),
        (
            (step("a", BUSY, taken=True), step("b", PASS)),
            "Yes to b; no longer proven: a: Names are found is inconclusive (too busy).",
        ),
    ],
)
def test_the_answer_is_one_sentence(decisions: tuple[StepDecision, ...], says: str) -> None:
    assert headline(decisions, {}) == says


def test_a_yes_shows_what_was_measured_and_a_no_its_reason() -> None:
    seen = {"v2": "nDCG@10 +0.0900 [0.0500, 0.1300], p95 12.1 → 9.30 ms"}
    assert headline((step("v2", PASS),), seen) == f"Yes to v2 ({seen['v2']})."
    assert seen["v2"] not in headline((step("v2", GATE),), seen)


def test_what_several_gates_say_is_said_once() -> None:
    others = (replace(BUSY, gate=name) for name in ("p95", "p99"))
    assert because((GATE, BUSY, *others, replace(OPEN, gate="c")), "old") == (
        f"✕ Names are found: {LOST}, required: loses less than 0.02",
        "? Names are found and 2 more: too busy",
        f"? c: {LOST}, required: loses less than 0.02",
    )
