"""What a CI page shows of the gates."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from harness.core.gate import Cause, StepDecision, Verdict
from harness.report.decision.ci import to_junit
from harness.report.inputs import ReportInput
from tests.make import report_inputs


def parsed(*reports: ReportInput) -> ET.Element:
    return ET.fromstring(to_junit(reports))  # noqa: S314  just written


def test_one_suite_a_step_one_case_a_gate() -> None:
    root = parsed(report_inputs.report("mail"))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["mail/shadow", "mail/tantivy", "mail/hybrid"]
    cases = suites["mail/tantivy"].findall("testcase")
    assert [case.get("name") for case in cases] == ["ndcg", "filters", "overlap", "budget <p50>"]
    assert {case.get("classname") for case in cases} == {"mail/tantivy"}
    assert suites["mail/tantivy"].get("tests") == "4"


def test_fail_is_a_failure_and_inconclusive_an_error() -> None:
    report = report_inputs.report()
    root = parsed(report)
    cases = {(c.get("classname"), c.get("name")): c for c in root.iter("testcase")}
    for decision in report.decisions:
        for finding in decision.findings:
            case = cases[f"mail/{decision.step}", finding.gate]
            bad = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
            expected = {
                Verdict.PASS: [], Verdict.FAIL: ["failure"], Verdict.INCONCLUSIVE: ["error"],
            }  # fmt: skip
            assert bad == expected[finding.verdict]
            assert finding.reason in (case.findtext("system-out") or "")
    error = cases["mail/tantivy", "overlap"].find("error")
    assert error is not None
    assert error.get("type") == "inconclusive"
    assert "About 210 queries" in (error.text or "")
    assert (root.get("failures"), root.get("errors")) == ("2", "2")
    assert [suite.get("skipped") for suite in root] == ["0", "0", "1"]


def test_a_step_without_gates_is_not_green() -> None:
    report = report_inputs.report()
    empty = report_inputs.rejudged(report, lambda decision: replace(decision, findings=()))
    assert parsed(empty).get("errors") == "3"


def test_waiting_is_not_green() -> None:
    suite = parsed(report_inputs.report())[2]
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "waits for tantivy"


def test_characters_that_xml_forbids_are_shown_otherwise() -> None:
    def hostile(decision: StepDecision) -> StepDecision:
        bad = "".join(report_inputs.HOSTILE)
        finding = replace(decision.findings[0], gate=bad, reason=bad)
        finding = replace(finding, verdict=Verdict.FAIL, cause=Cause.BROKEN)
        return replace(decision, findings=(finding,))

    root = parsed(report_inputs.rejudged(report_inputs.report(), hostile))
    name = root.find("testsuite/testcase")
    assert name is not None
    assert "nul \u2400 bell" in (name.get("name") or "")


def test_without_decisions_there_is_no_suite() -> None:
    root = parsed(report_inputs.compared_only())
    assert root.get("tests") == "0"
    assert list(root) == []
