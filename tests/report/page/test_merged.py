"""Steps about the same two arms are described once, and judged apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.report.page.cards import merged
from harness.report.page.view import to_page
from tests.make.report_inputs import report as built


def test_comparisons_of_the_same_arms_are_joined_under_both_names() -> None:
    report = built()
    first, *rest = report.evidence
    twice = {first: report.evidence[first], "again": report.evidence[first]}
    twice |= {name: report.evidence[name] for name in rest}
    found = merged(
        replace(
            report,
            evidence=twice,
            differences={**report.differences, "again": report.differences[first]},
        )
    )
    assert f"{first}, again" in found.evidence
    assert "again" not in found.evidence
    assert set(found.differences) <= set(found.evidence)
    assert found.decisions == report.decisions


def test_comparisons_of_different_arms_stay_apart() -> None:
    report = built()
    pairs = {(e.control.arm, e.candidate.arm) for e in report.evidence.values()}
    assert len(merged(report).evidence) == len(pairs)


@pytest.mark.usefixtures("undrawn")
def test_every_step_keeps_its_own_gates_on_the_page() -> None:
    report = built()
    page = to_page([report])
    for decision in report.decisions:
        assert f"Gates of {decision.step}" in page
