"""The decision page: its document, its HTML, and how far it can be trusted."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from harness.core.gate import OF_VERDICT, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report.html import PAGE
from harness.report.inputs import ReportInput
from harness.report.page.cards import merged
from harness.report.page.tables import traffic
from harness.stats.interval import TrafficMean
from tests.make import report_inputs
from tests.make.report_inputs import report as built

pytestmark = pytest.mark.slow
DETAIL = '<section class="dataset"'


class Reader(HTMLParser):
    """Collects elements, attributes and the text that a person sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def reports() -> list[ReportInput]:
    return [report_inputs.report("mail"), report_inputs.compared_only("<i>bare</i>")]


@pytest.fixture(scope="module")
def page(reports: list[ReportInput]) -> str:
    return report_inputs.page_of(*reports)


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


def test_hostile_text_is_shown_as_text(page: str, read: Reader) -> None:
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\x00" not in page
    assert "\u202e" not in page
    assert "<script>alert('query')</script>" in read.text
    assert "{{ 7 * 7 }}" in read.text


def test_a_bar_lies_on_its_side_of_the_bound(page: str) -> None:
    first = page[: page.index(DETAIL)]
    ends = {
        verdict: re.findall(
            rf'<li class="{verdict}">.*?class="ends" d="M([-\d.]+) 0H([-\d.]+)"', first
        )
        for verdict in Verdict
    }
    for low, high in (*ends[Verdict.PASS], *ends[Verdict.FAIL]):
        assert (float(low) < 0) == (float(high) < 0)
    for low, high in ends[Verdict.INCONCLUSIVE]:
        assert float(low) < 0 < float(high)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_has_its_own_look_and_no_other(verdict: Verdict) -> None:
    def all_of(decision: StepDecision) -> StepDecision:
        remedy = "more" if verdict is Verdict.INCONCLUSIVE else ""
        of: Any = {"verdict": verdict, "cause": OF_VERDICT[verdict], "remedy": remedy}
        findings = tuple(replace(finding, **of) for finding in decision.findings)
        return replace(decision, findings=findings, blocked_by="", taken=False)

    read = Reader(report_inputs.page_of(report_inputs.rejudged(report_inputs.report(), all_of)))
    classes = [" ".join((attrs.get("class") or "").split()) for _, attrs in read.elements]
    said = {name for name in classes if name.startswith("verdict ")}
    assert said == {f"verdict {verdict.value}"}
    promoted = {"card promote"} & set(classes)
    assert bool(promoted) == (verdict is Verdict.PASS)


def test_ids_are_unique_and_links_lead_somewhere(read: Reader) -> None:
    ids = [attrs["id"] for _, attrs in read.elements if attrs.get("id")]
    assert len(ids) == len(set(ids))
    targets = {(attrs.get("href") or "").removeprefix("#") for _, attrs in read.elements} - {""}
    targets = {target for target in targets if not target.startswith(PAGE)}
    assert targets <= set(ids)


def test_comparisons_of_the_same_arms_are_joined_under_both_names() -> None:
    report = built()
    first, *rest = report.evidence
    twice = {first: report.evidence[first], "again": report.evidence[first]}
    twice |= {name: report.evidence[name] for name in rest}
    differences = {**report.differences, "again": report.differences[first]}
    found = merged(replace(report, evidence=twice, differences=differences))
    assert f"{first}, again" in found.evidence
    assert "again" not in found.evidence
    assert set(found.differences) <= set(found.evidence)
    assert found.decisions == report.decisions


def test_arms_and_comparisons_have_both_means() -> None:
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    key = f"{evidence.control.arm}~{evidence.candidate.arm}"
    found = {
        evidence.control.arm: TrafficMean(Estimate(0.25, 0.2, 0.3, 40), 0.62),
        key: TrafficMean(Estimate(-0.05, -0.1, 0.0, 40), 0.5),
    }
    table = traffic(replace(report, traffic=found))
    arm, difference = table.rows
    assert arm[0].text == evidence.control.arm
    assert arm[1].text == "0.2500"
    assert (arm[2].text, difference[2].text) == ("62.0 %", "50.0 %")
    assert arm[3].text != arm[1].text
    assert difference[0].text == f"{evidence.control.arm} → {evidence.candidate.arm}"
    assert difference[1].text.endswith("0.0500")
    assert traffic(report).rows == ()
