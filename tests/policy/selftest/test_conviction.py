"""A PASS that the selftest speaks against."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import OF_VERDICT, Cause, Finding, Verdict
from harness.core.scores import Estimate
from harness.policy.selftest.operating import (
    Null,
    OperatingCharacteristic,
    Planted,
    Selftest,
    believed,
)

PASSED = Finding(
    "Quality",
    "non_inferior",
    Verdict.PASS,
    Cause.KEPT,
    "nDCG@10 0.6",
    "loses less",
    None,
    -0.02,
    "nDCG@10",
)
FINE = Planted("scattered", Estimate(0.02, 0.005, 0.05, 200))
OFTEN = Planted("rare total losses", Estimate(0.155, 0.108, 0.213, 200))
LOST = Null("tantivy", "shuffled", {"Quality": "fail"}, as_it_should=True)
PASSING = Null("tantivy", "popular", {"Quality": "pass"}, as_it_should=False)


def tried(*planted: Planted, nulls: tuple[Null, ...] = (LOST,)) -> Selftest:
    gate = OperatingCharacteristic(
        "tantivy", "Quality", "nDCG@10", 73, -0.02, planted, None, None, None
    )
    return Selftest("toy", "a policy", 5, 200, 0.025, 0.8, (gate,), nulls)


def test_a_gate_that_nothing_speaks_against_is_believed() -> None:
    assert believed(PASSED, "tantivy", tried(FINE)) is PASSED
    assert believed(PASSED, "tantivy", None) is PASSED
    assert believed(PASSED, "hybrid", tried(OFTEN)) is PASSED


def test_a_convicted_gate_does_not_pass_and_says_how_often_it_was_wrong() -> None:
    finding = believed(PASSED, "tantivy", tried(FINE, OFTEN))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.SELFTEST
    assert finding.reason == (
        "nDCG@10 0.6; but the selftest convicts this gate: it passed in 15.5 % [10.8 %, 21.3 %] of"
        " 200 trials whose loss was its bound (rare total losses); 2.5 % is allowed"
    )
    assert "judge more queries" in finding.remedy


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE])
def test_what_is_no_pass_stands(verdict: Verdict) -> None:
    found = replace(PASSED, verdict=verdict, cause=OF_VERDICT[verdict])
    assert believed(found, "tantivy", tried(OFTEN, nulls=(PASSING,))) is found


def test_a_gate_that_let_a_null_model_pass_does_not_pass() -> None:
    finding = believed(PASSED, "tantivy", tried(FINE, nulls=(LOST, PASSING)))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "with popular as the candidate the gates said Quality: pass" in finding.reason
    other = replace(PASSED, gate="Speed")
    assert believed(other, "tantivy", tried(FINE, nulls=(PASSING,))) is other
