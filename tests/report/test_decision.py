"""decision.json, report.md, and what a build server gets."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from harness.core.errors import BadFile
from harness.core.gate import OF_VERDICT, Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report import ci
from harness.report.decision import from_json, schema, to_json, without_times
from harness.report.doc import to_markdown
from harness.report.files import write_reports
from harness.report.inputs import ReportInput
from harness.report.page.view import document
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


def test_decisions_are_read_back(both: list[ReportInput]) -> None:
    found = from_json(written(both), PATH)
    assert [(dataset, one.step, one.outcome) for dataset, one in found] == [
        ("mail", "shadow", Outcome.PROMOTE),
        ("mail", "tantivy", Outcome.HOLD),
        ("mail", "hybrid", Outcome.HOLD),
    ]
    assert [one for _, one in found] == list(both[0].decisions)


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


def later(report: ReportInput) -> ReportInput:
    """Return the same report of another day and machine, with other timed verdicts."""

    def change(decision: StepDecision) -> StepDecision:
        quick = Estimate(1, 1, 1, 1)
        findings = tuple(
            replace(f, verdict=Verdict.PASS, cause=Cause.KEPT, estimate=quick, reason="quick")
            if f.timed
            else f
            for f in decision.findings
        )
        return replace(decision, findings=findings, blocked_by="")

    facts = {"machine": "other", "decided_at": "2027-01-01T00:00:00Z", "expires_at": None}
    of = report.provenance.model_copy(update=facts)
    assert report.latency is not None
    latency = replace(report.latency, percentiles={}, ratios={}, aa={})
    return replace(report_inputs.rejudged(report, change), provenance=of, latency=latency)


def test_without_times_a_verdict_that_a_clock_gave_is_gone() -> None:
    report = report_inputs.report()
    timed = [f for f in report.decisions[2].findings if f.timed]
    slow = report_inputs.rejudged(report, lambda d: replace(d, findings=(d.findings[0], *timed)))
    one, other = to_json([slow]), to_json([later(slow)])
    assert one["summary"]["verdict"] != other["summary"]["verdict"]
    assert without_times(one) == without_times(other)


def test_without_times_still_sees_a_changed_number() -> None:
    report = report_inputs.report()
    decision = report.decisions[0]
    first = replace(decision.findings[0], estimate=Estimate(0.5, 0.4, 0.6, 39))
    changed = replace(decision, findings=(first, *decision.findings[1:]))
    other = replace(report, decisions=(changed, *report.decisions[1:]))
    assert without_times(to_json([report])) != without_times(to_json([other]))


@pytest.fixture(scope="module")
def text() -> str:
    return to_markdown(
        document([report_inputs.report("mail"), report_inputs.compared_only("bare")])
    )


def test_tables_keep_their_columns(text: str) -> None:
    columns = 0
    for line in text.splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", line))
        assert columns in (0, found), line
        columns = found


def test_nothing_of_a_stranger_is_markup(text: str) -> None:
    assert "<script" not in text
    assert "<img" not in text
    assert "<b>" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "://" not in text
    assert "\x00" not in text
    assert "\n# heading" not in text


@pytest.mark.usefixtures("undrawn")
def test_five_files_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "reports"
    written = write_reports([report_inputs.report()], out)
    assert {path.name for path in out.iterdir()} == {
        "index.html", "explore.html", "report.md", "decision.json", "junit.xml",
    }  # fmt: skip
    assert set(written) == set(out.iterdir())
    decision = json.loads(written.decision.read_text(encoding="utf-8"))
    assert len(from_json(decision, written.decision)) == 3


LOSS = ci.Loss("q1", "two words", 0.75, 0.25, "")


def finding(verdict: Verdict) -> Finding:
    cause = OF_VERDICT[verdict]
    return Finding("quality", "floor", verdict, cause, "it lost", "b", None, None, "", "ask more")


def checked(verdict: Verdict, *losses: ci.Loss, blocked_by: str = "") -> ci.CiResult:
    decision = StepDecision("own", "fts5", "own", False, (finding(verdict),), blocked_by)  # noqa: FBT003
    held = (ci.Held("own", "fts5", losses or (LOSS,), verdict),)
    means = {"own": 0.5, "none": None}
    return ci.CiResult(
        "out", "pages", "nDCG@10", means, (decision,), held, file="data/q.jsonl", lines={"q1": 4}
    )


def compared(verdict: Verdict, *losses: ci.Loss, **more: Any) -> ci.CiResult:  # noqa: ANN401  fields
    """Make what came of an arm against itself in a baseline."""
    decision = StepDecision("own", "own", "own", False, (finding(verdict),))  # noqa: FBT003
    moved = (ci.MeasureOutcome("own", "nDCG@10", 0.6, 0.5, Estimate(-0.1, -0.2, 0.0, 9)),)
    against = ci.Against("pages", (decision,), moved, **more)
    held = (ci.Held("own", "own before", losses, verdict),)
    return ci.CiResult(
        "out", "pages", "nDCG@10", {"own": 0.5}, (), held, against, "https://ci/run#a_b"
    )


@pytest.mark.parametrize(
    ("verdict", "level", "word"),
    [
        (Verdict.FAIL, "error", "HOLD"),
        (Verdict.INCONCLUSIVE, "warning", "HOLD (inconclusive)"),
        (Verdict.PASS, "warning", "PROMOTE"),
    ],
)
def test_a_loss_is_an_error_only_where_a_gate_fails(
    verdict: Verdict, level: ci.Level, word: str
) -> None:
    found = checked(verdict)
    (note,) = ci.notes(found, 5)
    assert (note.level, note.file, note.line) == (level, "data/q.jsonl", 4)
    assert note.message == "q1 (two words): 0.7500 → 0.2500"
    assert f"| own | fts5 → own | {word} |" in ci.to_markdown(found, 5)


def test_no_text_of_strangers_is_markup() -> None:
    evil = "a | b\n# c <img src=x> [d](https://e) @f <!-- g --> ```"
    found = replace(checked(Verdict.FAIL, replace(LOSS, text=evil)), place="--> <script>")
    said = ci.to_markdown(found, 5)
    (row,) = (line for line in said.splitlines() if line.startswith("| q1 |"))
    assert "a \\| b \\# c &lt;img src=x&gt; \\[d\\](https&#58;//e) &#64;f" in row
    assert "<script>" not in said
    assert "<img" not in said


@pytest.mark.parametrize(
    ("same", "said", "other"),
    [
        (frozenset(), "No change was found in the indexes, and yet", "hit for hit"),
        (frozenset({"own"}), "The answers are the same, hit for hit.", "No change was found"),
    ],
)
def test_nothing_found_is_not_nothing_changed(same: frozenset[str], said: str, other: str) -> None:
    text = ci.to_markdown(compared(Verdict.PASS, same=same), 5)
    assert "## Search: no worse than the baseline" in text
    assert said in text
    assert other not in text
    assert "nothing" not in text


@pytest.mark.parametrize(
    ("step", "since", "whole"),
    [
        (Verdict.INCONCLUSIVE, Verdict.FAIL, Verdict.FAIL),
        (Verdict.FAIL, Verdict.PASS, Verdict.FAIL),
        (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        (Verdict.PASS, Verdict.PASS, Verdict.PASS),
    ],
)
def test_an_open_step_keeps_no_regression_back(
    step: Verdict, since: Verdict, whole: Verdict
) -> None:
    found = replace(checked(step), against=compared(since).against)
    assert found.verdict is whole


NOTE = ci.Annotation("error", "own loses", "q1: 1 → 0", "data\nq1", "data/queries.jsonl", 7)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "\x0b", "\x85", "\u2028"])
def test_no_text_begins_a_command_of_its_own(ends: str) -> None:
    evil = f"ask{ends}::stop-commands::x"
    for note in (NOTE._replace(message=evil), NOTE._replace(title=evil)):
        assert len(ci.github(note).splitlines()) == 1


def test_what_separates_is_escaped() -> None:
    said = ci.github(NOTE._replace(file="a,b:c%.jsonl", title="x,y::z", message="50 %: a,b"))
    assert said == "::error file=a%2Cb%3Ac%25.jsonl,line=7,title=x%2Cy%3A%3Az::50 %25: a,b"


def test_a_code_quality_report_has_what_gitlab_reads() -> None:
    (found,) = ci.gitlab([NOTE])
    assert set(found) == {"description", "check_name", "fingerprint", "severity", "location"}
    assert found["severity"] in {"info", "minor", "major", "critical", "blocker"}
    assert found["location"] == {"path": "data/queries.jsonl", "lines": {"begin": 7}}
    assert json.loads(json.dumps(found)) == found


def parsed(*reports: ReportInput) -> ET.Element:
    return ET.fromstring(ci.to_junit(reports))  # noqa: S314  just written


def test_a_step_without_gates_is_not_green() -> None:
    report = report_inputs.report()
    empty = report_inputs.rejudged(report, lambda decision: replace(decision, findings=()))
    assert parsed(empty).get("errors") == "3"
