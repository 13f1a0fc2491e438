"""A report's input refuses what cannot be one report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.errors import EvidenceError
from tests.report import builder


def test_a_step_may_not_be_decided_twice() -> None:
    report = builder.report()
    with pytest.raises(EvidenceError, match="shadow was decided twice"):
        replace(report, decisions=(report.decisions[0], *report.decisions))


def test_evidence_of_another_dataset_is_refused() -> None:
    report = builder.report("mail")
    with pytest.raises(EvidenceError, match="is about code, the report about mail"):
        replace(report, evidence=builder.report("code").evidence)


def test_a_decision_needs_a_policy() -> None:
    with pytest.raises(EvidenceError, match="without a policy"):
        replace(builder.report(), policy=None)


def test_arms_may_be_compared_without_a_policy() -> None:
    assert builder.compared_only().decisions == ()
