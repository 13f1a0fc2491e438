"""What a report is given."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from harness.core import digest
from harness.pipeline.evidence import evidence_of
from harness.pipeline.report_inputs import assemble
from tests.make.toy import ARMS, CANDIDATE, CONTROL, NAME, Toy

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def test_everything_measured_is_handed_over(measured: Toy) -> None:
    subject = measured.project.subject(NAME)
    report_input = assemble(
        measured.layout, subject, evidence_of(measured.layout, subject), (), NOW, custody=None
    )
    assert set(report_input.arms) == set(report_input.means) == set(ARMS)
    assert set(report_input.differences) == set(report_input.evidence) == {"tantivy"}
    assert set(report_input.slice_means) == {"identifier", "natural-language"}
    assert set(report_input.slice_differences["tantivy"]) == {"identifier", "natural-language"}
    assert report_input.latency is not None
    assert set(report_input.latency.percentiles) == {CONTROL, CANDIDATE}
    assert report_input.policy is not None
    assert report_input.policy.sha256 == digest.of_file(measured.root / "policy" / "toy.toml")
    assert report_input.measure == measured.params.score.measures[0]


def test_documents_are_looked_up_when_they_are_needed(measured: Toy) -> None:
    subject = measured.project.subject(NAME)
    report_input = assemble(
        measured.layout, subject, evidence_of(measured.layout, subject), (), NOW, custody=None
    )
    assert set(report_input.documents(frozenset({"d01", "d02", "none"}))) == {"d01", "d02"}


def test_without_a_policy_the_arms_are_only_described(measured: Toy) -> None:
    subject = replace(measured.project.subject(NAME), policy=None, policy_file=None, pairs={})
    report_input = assemble(measured.layout, subject, {}, (), NOW, custody=None)
    assert report_input.policy is None
    assert report_input.provenance.expires_at is None
    assert report_input.differences == {}
