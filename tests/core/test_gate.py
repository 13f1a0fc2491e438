"""Verdicts have no truth value, and a step is decided by all of them."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest

from harness.core.gate import OF_VERDICT, Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report.decision.decision_json import schema
from tests.source import ROOT

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def finding(verdict: Verdict, gate: str = "gate") -> Finding:
    return Finding(
        gate, "rule", verdict, OF_VERDICT[verdict], "because", "a bound", None, None, "share"
    )


def step(*verdicts: Verdict, taken: bool = False, blocked_by: str = "") -> StepDecision:
    found = tuple(finding(verdict, f"gate {at}") for at, verdict in enumerate(verdicts))
    return StepDecision("tantivy", "fts5", "tantivy", taken, found, blocked_by)


@pytest.mark.parametrize(("verdict", "cause"), list(product(Verdict, Cause)))
def test_a_cause_belongs_to_one_verdict(verdict: Verdict, cause: Cause) -> None:
    own = {Cause.KEPT: Verdict.PASS, Cause.BROKEN: Verdict.FAIL}.get(cause, OPEN)
    if own is verdict:
        assert replace(finding(own), verdict=verdict, cause=cause).cause is cause
    else:
        with pytest.raises(ValueError, match=f"gate: {verdict} has the cause {cause}"):
            replace(finding(own), verdict=verdict, cause=cause)


def test_the_causes_that_are_told_are_those_that_are_given() -> None:
    page = (ROOT / "docs/api.md").read_text("utf-8")
    told = dict(re.findall(r"(?m)^\| `(\w+)` \| (pass|fail|inconclusive) \|", page))
    own = {Cause.KEPT: Verdict.PASS, Cause.BROKEN: Verdict.FAIL}
    assert told == {cause.value: own.get(cause, OPEN).value for cause in Cause}
    kept = schema()["$defs"]["Cause"]["enum"]
    assert kept == [cause.value for cause in Cause]


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_neither_true_nor_false(verdict: Verdict) -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(verdict)
    with pytest.raises(TypeError):
        assert not verdict


@pytest.mark.parametrize("verdicts", list(product(Verdict, repeat=3)))
def test_one_fail_fails_and_one_open_leaves_open(verdicts: tuple[Verdict, ...]) -> None:
    said = step(*verdicts).verdict
    if FAIL in verdicts:
        assert said is FAIL
    elif OPEN in verdicts:
        assert said is OPEN
    else:
        assert said is PASS


@pytest.mark.parametrize(
    ("verdicts", "taken", "blocked_by", "outcome"),
    [
        ([PASS, PASS], False, "", Outcome.PROMOTE),
        ([PASS, PASS], True, "", Outcome.PROMOTE),
        ([PASS, FAIL], False, "", Outcome.HOLD),
        ([PASS, FAIL], True, "", Outcome.ROLLBACK),
        ([OPEN, FAIL], True, "", Outcome.ROLLBACK),
        ([FAIL], True, "shadow", Outcome.ROLLBACK),
        ([PASS, OPEN], False, "", Outcome.HOLD),
        ([PASS, OPEN], True, "", Outcome.HOLD),
        ([PASS], False, "shadow", Outcome.HOLD),
        ([], False, "", Outcome.HOLD),
        ([], True, "", Outcome.HOLD),
    ],
)
def test_what_follows(
    verdicts: list[Verdict],
    taken: bool,  # noqa: FBT001  a case
    blocked_by: str,
    outcome: Outcome,
) -> None:
    assert step(*verdicts, taken=taken, blocked_by=blocked_by).outcome is outcome


def test_a_step_without_gates_is_not_passed() -> None:
    assert step().verdict is OPEN


def test_failures_stand_before_what_is_open() -> None:
    blocking = step(PASS, OPEN, FAIL, PASS, OPEN, FAIL).blocking
    assert [f.verdict for f in blocking] == [FAIL, FAIL, OPEN, OPEN]
    assert [f.gate for f in blocking] == ["gate 2", "gate 5", "gate 1", "gate 4"]
    assert step(PASS).blocking == ()


def test_what_was_measured_stands_before_what_was_not() -> None:
    held = step(OPEN, OPEN, FAIL)
    measured = replace(held.findings[1], estimate=Estimate(0.0, -0.1, 0.1, 40))
    blocking = replace(held, findings=(held.findings[0], measured, held.findings[2])).blocking
    assert [f.gate for f in blocking] == ["gate 2", "gate 1", "gate 0"]
