"""What the policy may err: on the page, in the Markdown, and for machines (trust_json)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from harness.policy.load import load_policy
from harness.report.decision.decided import schema
from harness.report.decision.decision_json import to_json
from harness.report.decision.write import to_markdown
from harness.report.inputs import ReportInput
from harness.report.page.cards import card
from harness.report.page.trust import Trust
from harness.report.page.view import to_page
from tests.make import report_inputs

POLICY = """\
[policy]
name = "m"
version = 1
seed = 3
confidence = 0.95
resamples = 1000
power = 0.8
evidence_days = 7
alpha = 0.06
"""

pytestmark = [pytest.mark.usefixtures("undrawn"), pytest.mark.slow]


def known(folder: Path) -> Trust:
    """Three steps in a chain, the second judged twice."""
    steps = "".join(
        f'[[step]]\nname = "{name}"\ncontrol = "a"\ncandidate = "b"\ntaken = false\n'
        f'attempts = {attempts}\n[[step.gate]]\nname = "ndcg"\nrule = "non_inferior"\n'
        'measure = "nDCG@10"\nmargin = 0.02\n'
        for name, attempts in (("shadow", 1), ("tantivy", 2), ("hybrid", 1))
    )
    (folder / "policy.toml").write_text(POLICY + steps)
    return Trust(load_policy(folder / "policy.toml"))


@pytest.fixture
def report(tmp_path: Path) -> ReportInput:
    return replace(report_inputs.report(), trust=known(tmp_path))


def test_a_step_says_what_its_design_allows(report: ReportInput) -> None:
    said = [" ".join(card(report, decision).sure) for decision in report.decisions]
    assert said[0].endswith("False-promotion rate: the design allows 2.5 % over a single look.")
    assert said[1].endswith("False-promotion rate: the design allows 5.0 % over 2 looks.")


@pytest.mark.parametrize("write", [to_page, to_markdown])
def test_people_see_the_budget(
    report: ReportInput, write: Callable[[Sequence[ReportInput]], str]
) -> None:
    shown = write([report])
    assert "Error budget of all steps together, waiting for each other: 5.0 % by design" in shown
    assert "(allowed 6.0 %)" in shown.replace("\\", "")


def test_machines_get_the_numbers(report: ReportInput) -> None:
    written = to_json([report, report_inputs.compared_only()])
    jsonschema.validate(written, schema(), jsonschema.Draft202012Validator)
    first, second = (dataset["trust"] for dataset in written["datasets"])
    assert second is None
    assert first.keys() == {"alpha"}
    assert (first["alpha"]["together"], first["alpha"]["allowed"]) == (0.05, 0.06)
    assert first["alpha"]["steps"]["tantivy"] == {"alpha": 0.05, "attempts": 2}
