"""``junit.xml``: a suite for each step and a case for each gate, so that CI shows what blocks.

An inconclusive gate is an ``error`` of type ``inconclusive``: it is not a failure of the candidate,
but must not look green. A step that only waits for another is a skipped case.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from harness.core.gate import Finding, StepDecision, Verdict
from harness.core.printable import one_line, printable
from harness.report.inputs import ReportInput
from harness.report.page.cards import answer, gate_row

ELEMENT = {Verdict.FAIL: "failure", Verdict.INCONCLUSIVE: "error"}


def _case(suite: ET.Element, name: str, verdict: Verdict, reason: str, remedy: str) -> ET.Element:
    about = {"classname": suite.get("name", ""), "name": one_line(name)}
    case = ET.SubElement(suite, "testcase", about)
    if verdict is not Verdict.PASS:
        said = {"type": verdict.value, "message": one_line(reason)}
        text = printable(f"{reason}\nTo reach a decision: {remedy}" if remedy else reason)
        ET.SubElement(case, ELEMENT[verdict], said).text = text
    return case


def _details(finding: Finding) -> str:
    row = gate_row(finding)
    rests = f" {row.interval} over {row.n}" if row.interval else ""
    lines = [
        row.reason,
        f"cause: {finding.cause.value}",
        f"bound: {row.bound}",
        f"measured: {row.value}{rests}",
    ]
    return printable("\n".join(lines))


def _suite(report: ReportInput, decision: StepDecision) -> ET.Element:
    suite = ET.Element("testsuite")
    suite.set("name", one_line(f"{report.provenance.dataset}/{decision.step}"))
    for finding in decision.findings:
        case = _case(suite, finding.gate, finding.verdict, finding.reason, finding.remedy)
        ET.SubElement(case, "system-out").text = _details(finding)
    if not decision.findings:
        _case(suite, "evidence", Verdict.INCONCLUSIVE, answer(decision), "judge the step's gates")
    if decision.blocked_by:
        case = _case(suite, "order of steps", Verdict.PASS, "", "")
        message = one_line(f"waits for {decision.blocked_by}")
        ET.SubElement(case, "skipped", {"message": message})
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    properties = ET.Element("properties")
    for name, value in (
        ("outcome", decision.outcome.value),
        ("control", decision.control),
        ("candidate", decision.candidate),
    ):
        ET.SubElement(properties, "property", {"name": name, "value": one_line(value)})
    suite.insert(0, properties)
    return suite


def to_junit(reports: Sequence[ReportInput]) -> str:
    """Give the decisions of all datasets as JUnit XML."""
    root = ET.Element("testsuites", {"name": "search-harness"})
    for report in reports:
        root.extend(_suite(report, decision) for decision in report.decisions)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
