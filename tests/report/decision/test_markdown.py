"""The decision as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.core.gate import StepDecision
from harness.report.decision.files import to_markdown
from harness.report.rounding import markdown
from tests.make import report_inputs


@pytest.fixture(scope="module")
def text() -> str:
    return to_markdown([report_inputs.report("mail"), report_inputs.compared_only("bare")])


def test_every_reason_and_settlement_is_there(text: str) -> None:
    for decision in report_inputs.report().decisions:
        assert f"\n### {decision.step}: {decision.outcome.value.upper()}" in text
        for finding in decision.findings:
            assert markdown(finding.reason) in text
            assert markdown(finding.remedy) in text


def test_sentences_of_a_gate_stand_apart() -> None:
    def terse(decision: StepDecision) -> StepDecision:
        said = [replace(one, reason="too noisy", remedy="wait") for one in decision.findings]
        return replace(decision, findings=tuple(said))

    text = to_markdown([report_inputs.rejudged(report_inputs.report(), terse)])
    assert "too noisy. To reach a decision: wait." in text


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


def test_no_number_is_missing_its_words(text: str) -> None:
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert "No race was run, so nothing is said about time." in text
    assert "No policy was named" in text


def test_the_worst_queries_are_at_most_ten(text: str) -> None:
    part = text.partition("Queries that lost most: hybrid\n")[2].partition("\n#")[0]
    assert len([line for line in part.splitlines() if line.startswith("|")]) == 2 + 10


def test_the_same_text_again(text: str) -> None:
    assert to_markdown([report_inputs.report("mail"), report_inputs.compared_only("bare")]) == text
