"""A report's input refuses what cannot be one report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.errors import EvidenceError
from tests.make import report_inputs


def test_a_step_may_not_be_decided_twice() -> None:
    report = report_inputs.report()
    with pytest.raises(EvidenceError, match="shadow was decided twice"):
        replace(report, decisions=(report.decisions[0], *report.decisions))


def test_evidence_of_another_dataset_is_refused() -> None:
    report = report_inputs.report("mail")
    with pytest.raises(EvidenceError, match="is about code, the report about mail"):
        replace(report, evidence=report_inputs.report("code").evidence)


def test_a_decision_needs_a_policy() -> None:
    with pytest.raises(EvidenceError, match="without a policy"):
        replace(report_inputs.report(), policy=None)


def test_arms_may_be_compared_without_a_policy() -> None:
    assert report_inputs.compared_only().decisions == ()
