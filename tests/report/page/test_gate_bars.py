"""Where a gate's bar lies against its bound."""

from __future__ import annotations

import math

import pytest

from harness.core.gate import Cause, Finding, Verdict
from harness.core.scores import Estimate
from harness.gates.base.rules import Where
from harness.policy.load import load_policy
from harness.report.doc import Bar
from harness.report.page.cards import BEYOND, EDGE, allowed, bar, sides
from tests.source import ROOT


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


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ("above", (0.0, EDGE)),
        ("below", (-EDGE, 0.0)),
        ("within", (-0.8, 0.0)),  # from -0.1 to 0.1, and the low end lies 0.25 below the bound
        (None, None),
    ],
)
def test_the_side_that_passes_ends_at_the_bound(
    passes: Where | None, expected: tuple[float, float] | None
) -> None:
    found = allowed(finding(Estimate(0.0, -0.15, 0.05, 9), 0.1), passes)
    assert found == (pytest.approx(expected) if expected else None)


def test_the_side_that_passes_is_cut_at_the_edge_and_needs_a_bar() -> None:
    near = finding(Estimate(0.1, 0.1, 0.1, 9), 0.1)
    assert allowed(near, "within") == (-EDGE, 0.0)
    assert allowed(finding(Estimate(0.098, 0.09, 0.099, 9), 0.1), "within") == (-EDGE, 0.0)
    assert allowed(finding(None, 0.1), "above") is None
    assert allowed(finding(Estimate(1, 1, 1, 1), None), "above") is None


def test_sides_are_those_of_the_policy() -> None:
    policy = load_policy(ROOT / "policy" / "migration.toml")
    assert sides(policy, "shadow") == {
        "Engine identity": None,
        "Unanswered queries": "below",
        "Duplicate documents": "below",
    }
    assert not sides(policy, "another step")
    assert not sides(None, "shadow")
