"""The decision for machines: schema, reading back, and what is left without times."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.core.errors import BadFile
from harness.core.gate import Cause, Outcome, StepDecision, Verdict, together
from harness.core.scores import Estimate
from harness.report.decision.decision_json import (
    from_json,
    schema,
    to_json,
    without_times,
)
from harness.report.inputs import ReportInput
from tests.make import report_inputs

PATH = Path("decision.json")


@pytest.fixture(scope="module")
def both() -> list[ReportInput]:
    return [report_inputs.report("mail"), report_inputs.compared_only("bare")]


def written(reports: list[ReportInput]) -> Any:  # noqa: ANN401  what json gives back
    return json.loads(json.dumps(to_json(reports), allow_nan=False))


def test_it_keeps_its_schema(both: list[ReportInput]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(written(both), schema(), jsonschema.Draft202012Validator)


def test_the_schema_is_closed(both: list[ReportInput]) -> None:
    value = written(both)
    value["datasets"][0]["steps"][0]["extra"] = 1
    with pytest.raises(BadFile, match="extra"):
        from_json(value, PATH)


def test_an_inconclusive_finding_must_say_what_would_settle_it() -> None:
    value = written([report_inputs.report()])
    value["datasets"][0]["steps"][1]["findings"][2]["settle"] = ""
    with pytest.raises(BadFile, match="settle"):
        from_json(value, PATH)


def test_decisions_are_read_back(both: list[ReportInput]) -> None:
    found = from_json(written(both), PATH)
    assert [(d.dataset, d.decision.step, d.decision.outcome) for d in found] == [
        ("mail", "shadow", Outcome.PROMOTE),
        ("mail", "tantivy", Outcome.HOLD),
        ("mail", "hybrid", Outcome.HOLD),
    ]
    assert [each.decision for each in found] == list(both[0].decisions)


def test_a_finding_whose_cause_belongs_to_another_verdict_is_refused() -> None:
    value = written([report_inputs.report()])
    finding = value["datasets"][0]["steps"][0]["findings"][0]
    assert (finding["verdict"], finding["cause"]) == ("pass", "kept")
    finding["cause"] = "broken"
    with pytest.raises(BadFile, match=r"pass has the cause broken\. Write it again"):
        from_json(value, PATH)


def test_a_verdict_that_its_findings_do_not_give_is_refused() -> None:
    value = written([report_inputs.report()])
    value["datasets"][0]["steps"][2]["verdict"] = "pass"
    value["datasets"][0]["steps"][2]["outcome"] = "promote"
    with pytest.raises(BadFile, match="hybrid of mail says pass, promote, but its findings give"):
        from_json(value, PATH)


def test_the_summary_is_the_worst_of_all(both: list[ReportInput]) -> None:
    summary = written(both)["summary"]
    assert summary["verdict"] == "fail"
    assert summary["outcomes"] == {"promote": 1, "hold": 2, "rollback": 0}
    assert written(both[1:])["summary"]["verdict"] is None


def test_together() -> None:
    assert together([]) is Verdict.INCONCLUSIVE
    assert together([Verdict.PASS]) is Verdict.PASS
    assert together([Verdict.PASS, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
    assert together([Verdict.INCONCLUSIVE, Verdict.FAIL]) is Verdict.FAIL


def later(report: ReportInput) -> ReportInput:
    """Give the same report of another day and machine, with other timed verdicts."""

    def change(decision: StepDecision) -> StepDecision:
        quick = Estimate(1, 1, 1, 1)
        findings = tuple(
            replace(f, verdict=Verdict.PASS, cause=Cause.KEPT, estimate=quick, reason="quick")
            if f.timed
            else f
            for f in decision.findings
        )
        return replace(decision, findings=findings, blocked_by="")

    of = replace(
        report.provenance, machine="other", decided_at="2027-01-01T00:00:00Z", expires_at=None
    )
    assert report.latency is not None
    latency = replace(report.latency, percentiles={}, ratios={}, aa={})
    return replace(report_inputs.rejudged(report, change), provenance=of, latency=latency)


def test_without_times_two_days_are_equal() -> None:
    report = report_inputs.report()
    one, other = to_json([report]), to_json([later(report)])
    assert one != other
    assert without_times(one) == without_times(other)


def test_without_times_a_verdict_that_a_clock_gave_is_gone() -> None:
    report = report_inputs.report()
    timed = [f for f in report.decisions[2].findings if f.timed]
    slow = report_inputs.rejudged(report, lambda d: replace(d, findings=(d.findings[0], *timed)))
    one, other = to_json([slow]), to_json([later(slow)])
    assert one["summary"]["verdict"] != other["summary"]["verdict"]
    assert without_times(one) == without_times(other)


def test_without_times_leaves_its_argument_and_the_untimed_findings() -> None:
    value = to_json([report_inputs.report()])
    before = copy.deepcopy(value)
    rest = without_times(value)
    assert value == before
    hybrid = rest["datasets"][0]["steps"][2]
    gates = [found["gate"] for found in hybrid["findings"]]
    assert gates == ["ndcg", "natural language", "identifiers"]
    assert hybrid["untimed_verdict"] == "fail"


def test_without_times_still_sees_a_changed_number() -> None:
    report = report_inputs.report()
    decision = report.decisions[0]
    first = replace(decision.findings[0], estimate=Estimate(0.5, 0.4, 0.6, 39))
    changed = replace(decision, findings=(first, *decision.findings[1:]))
    other = replace(report, decisions=(changed, *report.decisions[1:]))
    assert without_times(to_json([report])) != without_times(to_json([other]))


def test_an_unverified_arm_has_no_times() -> None:
    latency = written([report_inputs.report()])["datasets"][0]["latency"]
    assert set(latency["percentiles"]) == {"fts5-default", "tantivy-default"}
    assert "hybrid" not in latency["ratios"]
    assert latency["percentiles"]["fts5-default"]["max"]["high"] is None
