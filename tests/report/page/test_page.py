"""The page: nothing runs, nothing loads, nothing is left out."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser

import pytest

from harness.core.gate import OF_VERDICT, StepDecision, Verdict
from harness.core.printable import printable
from harness.load.evidence import shown
from harness.report.html import PAGE, explore_link
from harness.report.inputs import ReportInput
from harness.report.page.queries import movers
from harness.report.page.view import to_page
from tests.make import report_inputs

pytestmark = pytest.mark.slow
DETAIL = '<section class="dataset"'
LOADING = {"src", "srcset", "action", "formaction", "data", "poster", "background"}


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
    return to_page(reports)


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


def test_the_same_bytes_again(page: str) -> None:
    again = to_page([report_inputs.report("mail"), report_inputs.compared_only("<i>bare</i>")])
    assert again.encode() == page.encode()


def test_only_our_script_may_run(read: Reader) -> None:
    (ours,) = read.scripts
    digest = base64.b64encode(hashlib.sha256(ours.encode()).digest()).decode()
    policy = next(
        attrs["content"]
        for tag, attrs in read.elements
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "http" not in policy


def test_nothing_is_loaded_and_no_handler_is_inline(page: str, read: Reader) -> None:
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"img", "link", "iframe", "object", "embed", "base", "form", "image"}
    for _, attrs in read.elements:
        assert not LOADING & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith(("#", f"{PAGE}#"))
    assert "@import" not in page
    assert all(found.startswith("#") for found in re.findall(r"url\(([^)]*)\)", page))


def test_hostile_text_is_shown_as_text(page: str, read: Reader) -> None:
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\x00" not in page
    assert "\u202e" not in page
    assert "<script>alert('query')</script>" in read.text
    assert "{{ 7 * 7 }}" in read.text


@pytest.mark.usefixtures("undrawn")
def test_hostile_reasons_are_shown_as_text() -> None:
    bad = "".join(report_inputs.HOSTILE)

    def hostile(decision: StepDecision) -> StepDecision:
        finding = replace(decision.findings[0], gate=bad, reason=bad, bound=bad, unit=bad)
        return replace(decision, step=bad + decision.step, findings=(finding,), blocked_by=bad)

    page = to_page([report_inputs.rejudged(report_inputs.report(), hostile)])
    page.encode()
    assert not set("\x00\x07\x1b\u202e") & set(page)
    assert "<script>alert" not in page
    assert "<img" not in page


def test_every_finding_is_on_the_page(read: Reader) -> None:
    for decision in report_inputs.report().decisions:
        for finding in decision.findings:
            for said in (finding.gate, finding.reason, finding.bound, finding.remedy):
                assert " ".join(printable(said).split()) in read.text


def test_what_blocks_a_step_is_on_the_first_screen(page: str) -> None:
    first = html.unescape(page[: page.index(DETAIL)])
    for decision in report_inputs.report().decisions:
        for finding in decision.blocking:
            said = finding.reason[:-1] if finding.estimate is None else finding.bound
            assert f"{finding.gate}: " in first
            assert said in first


def test_every_gate_is_on_the_first_screen_and_leads_to_its_row(page: str) -> None:
    first = page[: page.index(DETAIL)]
    strips = re.findall(r'<ol class="strip".*?</ol>', first, flags=re.DOTALL)
    decisions = report_inputs.report().decisions
    assert len(strips) == len(decisions)
    for at, (decision, strip) in enumerate(zip(decisions, strips, strict=True)):
        links = re.findall(r'href="#([^"]+)"', strip)
        assert links == [f"d0-{at}-{row}" for row in range(len(decision.findings))]
        for finding, link in zip(decision.findings, links, strict=True):
            (row,) = re.findall(rf'<tr id="{link}".*?</tr>', page, flags=re.DOTALL)
            assert f'class="verdict {finding.verdict.value}"' in row
            assert html.escape(finding.gate) in row


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
def test_pages_beside_this_one_are_linked_where_there_are_any(page: str) -> None:
    assert "Earlier decisions" not in page
    assert "Under load" not in page
    load = partial(shown, None, "../perf/mail/load.html")
    beside = replace(report_inputs.report(), beside=(load,), history="trends.html")
    linked = to_page([beside])
    assert '<a href="trends.html">Earlier decisions</a>' in linked
    assert '<a href="../perf/mail/load.html">The page of the load</a>' in linked
    assert "The load is not of these arms as they are now." in linked


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_has_its_own_look_and_no_other(verdict: Verdict) -> None:
    def all_of(decision: StepDecision) -> StepDecision:
        remedy = "more" if verdict is Verdict.INCONCLUSIVE else ""
        cause = OF_VERDICT[verdict]
        findings = tuple(
            replace(f, verdict=verdict, cause=cause, remedy=remedy) for f in decision.findings
        )
        return replace(decision, findings=findings, blocked_by="", taken=False)

    read = Reader(to_page([report_inputs.rejudged(report_inputs.report(), all_of)]))
    classes = [" ".join((attrs.get("class") or "").split()) for _, attrs in read.elements]
    said = {name for name in classes if name.startswith("verdict ")}
    assert said == {f"verdict {verdict.value}"}
    promoted = {"card promote"} & set(classes)
    assert bool(promoted) == (verdict is Verdict.PASS)


def test_empty_things_are_words(page: str, read: Reader) -> None:
    assert not re.search(r"\b(nan|NaN|inf|None|undefined behaviour)\b", read.text)
    assert "nan" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL).lower().split()
    assert "No race was run, so nothing is said about time." in read.text
    assert "No slices were measured." in read.text
    assert "nothing to measure" in read.text
    assert "not defined for any query" in read.text


def test_ids_are_unique_and_links_lead_somewhere(read: Reader) -> None:
    ids = [attrs["id"] for _, attrs in read.elements if attrs.get("id")]
    assert len(ids) == len(set(ids))
    targets = {(attrs.get("href") or "").removeprefix("#") for _, attrs in read.elements} - {""}
    targets = {target for target in targets if not target.startswith(PAGE)}
    assert targets <= set(ids)


def test_steps_and_queries_lead_to_the_explorer(read: Reader) -> None:
    targets = {attrs.get("href") for _, attrs in read.elements}
    report = report_inputs.report("mail")
    for decision in report.decisions:
        assert explore_link("mail", decision.control, decision.candidate) in targets
    for moved in movers(report, 1)["hybrid"].worse:
        assert (
            explore_link("mail", "tantivy-default", "hybrid-rrf", moved.query.query_id) in targets
        )


def test_tables_have_captions_and_headers(page: str) -> None:
    tables = re.findall(r"<table.*?</table>", page, flags=re.DOTALL)
    assert len(tables) > 10
    for table in tables:
        assert "<caption>" in table
        assert 'scope="col"' in table


@pytest.mark.usefixtures("undrawn")
def test_a_report_without_any_decision_compares() -> None:
    read = Reader(to_page([report_inputs.compared_only()]))
    assert "How the search engines compare" in read.text
    assert "only compared" in read.text
    assert "May the search engine be replaced?" not in " ".join(read.text.split()[10:])


@pytest.mark.usefixtures("undrawn")
def test_bare_evidence_still_renders() -> None:
    report = report_inputs.report()
    bare = replace(
        report,
        evidence={},
        arms={},
        means={},
        slice_means={},
        differences={},
        slice_differences={},
        measure="AP",
    )
    read = Reader(to_page([bare]))
    assert "Evidence for this step is missing." in read.text
    assert "No two arms were compared." in read.text
    assert "Nothing was measured." in read.text


@pytest.mark.usefixtures("undrawn")
def test_a_step_without_gates_cannot_look_taken() -> None:
    report = report_inputs.rejudged(
        report_inputs.report(), lambda d: replace(d, findings=(), blocked_by="")
    )
    read = Reader(to_page([report]))
    assert "No gate judged this step, so it cannot be taken." in read.text
    assert not [a for _, a in read.elements if "promote" in (a.get("class") or "")]
