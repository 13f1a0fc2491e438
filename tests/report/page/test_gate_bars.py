"""Where a gate's bar lies against its bound."""

from __future__ import annotations

import math

import pytest

from harness.core.gate import Cause, Finding, Verdict
from harness.core.scores import Estimate
from harness.report.page.gate_bars import BEYOND, Bar, bar


def finding(estimate: Estimate | None, limit: float | None) -> Finding:
    return Finding("g", "floor", Verdict.PASS, Cause.KEPT, "fine", "b", estimate, limit, "u")


@pytest.mark.parametrize(
    ("estimate", "limit", "expected"),
    [
        (Estimate(3.0, 2.0, 5.0, 9), 1.0, Bar(0.25, 0.5, 1.0)),
        (Estimate(-0.5, -1.0, 0.5, 9), 0.0, Bar(-1.0, -0.5, 0.5)),
        (Estimate(0.0, 0.0, 0.0, 9), 0.0, Bar(0.0, 0.0, 0.0)),
        (Estimate(3.9, 3.4, math.inf, 9), 3.0, Bar(0.4 / 0.9, 1.0, BEYOND)),
        (Estimate(1.0, -math.inf, 2.0, 9), 0.0, Bar(-BEYOND, 0.5, 1.0)),
    ],
)
def test_the_furthest_finite_end_lies_at_one(
    estimate: Estimate, limit: float, expected: Bar
) -> None:
    assert bar(finding(estimate, limit)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("estimate", "limit"),
    [(None, 1.0), (Estimate(1, 1, 1, 1), None), (Estimate(math.nan, 0, 1, 1), 0.0)],
)
def test_what_cannot_be_placed_has_no_bar(estimate: Estimate | None, limit: float | None) -> None:
    assert bar(finding(estimate, limit)) is None
