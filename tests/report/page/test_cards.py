"""What the first screen says of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report.page.cards import Tone, card, gate_row, tone
from tests.make import report_inputs

PASS = Finding("g", "floor", Verdict.PASS, Cause.KEPT, "fine", "b", Estimate(1, 1, 1, 1), 0.0, "u")
FAIL = replace(PASS, gate="h", verdict=Verdict.FAIL, cause=Cause.BROKEN, reason="harm")
OPEN = replace(
    PASS,
    gate="i",
    verdict=Verdict.INCONCLUSIVE,
    cause=Cause.OPEN,
    reason="unclear",
    remedy="more",
)


def step(*findings: Finding, taken: bool = False, blocked_by: str = "") -> StepDecision:
    return StepDecision("shadow", "a", "b", taken, findings, blocked_by)


@pytest.mark.parametrize(
    ("decision", "expected", "words"),
    [
        (step(PASS), Tone.PROMOTE, "May be taken"),
        (step(PASS, taken=True), Tone.PROMOTE, "still passes"),
        (step(PASS, blocked_by="x"), Tone.WAITS, "waits for x"),
        (step(PASS, OPEN), Tone.UNSURE, "Cannot be decided yet"),
        (step(PASS, OPEN, taken=True), Tone.UNSURE, "no longer proves"),
        (step(), Tone.UNSURE, "no gate judged it"),
        (step(PASS, OPEN, FAIL), Tone.HOLD, "May not be taken"),
        (step(FAIL, blocked_by="x"), Tone.HOLD, "also waits for x"),
        (step(OPEN, FAIL, taken=True), Tone.ROLLBACK, "Take it back"),
    ],
)
def test_every_decision_has_its_tone_and_words(
    decision: StepDecision, expected: Tone, words: str
) -> None:
    found = card(report_inputs.report(), decision)
    assert tone(decision) is expected
    assert found.tone is expected
    assert words in found.answer
    assert (found.tone is Tone.PROMOTE) == (found.outcome is Outcome.PROMOTE)


def test_a_step_called_shadow_is_explained_and_no_other() -> None:
    found = card(report_inputs.report(), step(PASS))
    assert found.gloss == "b beside a, unseen by users"
    assert not card(report_inputs.report(), replace(step(PASS), step="tantivy")).gloss


def test_failures_are_named_first_and_the_rest_counted() -> None:
    found = card(report_inputs.report(), step(PASS, OPEN, replace(OPEN, gate="j"), FAIL))
    assert [row.gate for row in found.because] == ["h", "i"]
    assert [row.gate for row in found.more] == ["j"]
    assert [row.gate for row in found.gates] == ["g", "i", "j", "h"]
    assert found.counts == "4 gates: 1 pass, 1 fail, 2 inconclusive"


def test_the_effect_tells_losses_beside_the_gain() -> None:
    report = report_inputs.report()
    effect = card(report, report.decisions[2]).effect
    assert "worse on " in effect
    assert "1 without a value in one arm" in effect


def test_a_step_without_evidence_says_so() -> None:
    report = replace(report_inputs.report(), evidence={})
    assert card(report, report.decisions[0]).effect == "Evidence for this step is missing."


def test_a_measure_that_no_arm_has_is_words() -> None:
    report = replace(report_inputs.report(), measure="AP@1000")
    assert "No query has a value of AP@1000" in card(report, report.decisions[0]).effect


def test_nothing_measured_is_not_zero() -> None:
    row = gate_row(replace(OPEN, estimate=None))
    assert (row.value, row.interval, row.n) == ("nothing to measure", "", "")


def test_nanoseconds_are_shown_as_milliseconds() -> None:
    row = gate_row(replace(PASS, unit="ns", estimate=Estimate(2e6, 1e6, 3e6, 4)))
    assert (row.value, row.interval) == ("2.00 ms", "[1.00, 3.00]")
