"""What the first screen says of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report.doc import Items, Section, Strip, Text
from harness.report.page.cards import (
    Tone,
    answer,
    because,
    card,
    counts,
    effect,
    gloss,
    measured,
    tone,
)
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
    found = card(report_inputs.report(), decision, "d0-0")
    assert tone(decision) is expected
    assert found.tone == expected.value
    assert words in answer(decision)
    assert (found.tone == Tone.PROMOTE.value) == (found.outcome == Outcome.PROMOTE.value.upper())


def test_a_step_called_shadow_is_explained_and_no_other() -> None:
    assert gloss(step(PASS)) == "b beside a, unseen by users"
    assert not gloss(replace(step(PASS), step="tantivy"))


def test_failures_are_named_first_and_the_rest_counted() -> None:
    found = step(PASS, OPEN, replace(OPEN, gate="j"), FAIL)
    assert [line[:3] for line in because(found.blocking, "a")] == ["✕ h", "? i", "? j"]
    assert counts(found) == "4 gates: 1 pass, 1 fail, 2 inconclusive"
    shown = card(report_inputs.report(), found, "d0-0")
    inside = [one for one in shown.blocks if isinstance(one, Section)]
    assert [one.title for one in inside] == [counts(found), "and 1 more"]
    (strip,) = inside[0].blocks
    assert isinstance(strip, Strip)
    assert [one.name for one in strip.stripes] == ["g", "i", "j", "h"]


def test_a_card_shows_the_gain_the_times_and_what_remains() -> None:
    report = report_inputs.report()
    blocks = card(report, report.decisions[1], "d0-1").blocks
    said = [one.text for one in blocks if isinstance(one, Text) and one.kind == "measured"]
    assert said[0].startswith("nDCG@10 ")
    assert said[1].startswith("p95 ")
    (needs,) = (one.items for one in blocks if isinstance(one, Items) and one.kind == "remains")
    assert needs


def test_the_effect_tells_losses_beside_the_gain() -> None:
    said = effect(report_inputs.report(), "hybrid")
    assert "worse on " in said
    assert "1 without a value in one arm" in said


def test_a_step_without_evidence_says_so() -> None:
    assert effect(replace(report_inputs.report(), evidence={}), "hybrid") == (
        "Evidence for this step is missing."
    )


def test_a_measure_that_no_arm_has_is_words() -> None:
    report = replace(report_inputs.report(), measure="AP@1000")
    assert "No query has a value of AP@1000" in effect(report, "hybrid")


def test_nothing_measured_is_not_zero() -> None:
    shown = measured(replace(OPEN, estimate=None))
    assert (shown.text, shown.note) == ("nothing to measure", "")


def test_nanoseconds_are_shown_as_milliseconds() -> None:
    shown = measured(replace(PASS, unit="ns", estimate=Estimate(2e6, 1e6, 3e6, 4)))
    assert (shown.text, shown.note) == ("2.00 ms", "[1.00, 3.00]")
