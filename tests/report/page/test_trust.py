"""What the policy may err: on the page, in the Markdown, and for machines (trust_json)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from harness.policy.load import load_policy
from harness.report.decision.decision_json import schema, to_json
from harness.report.decision.files import to_markdown
from harness.report.inputs import ReportInput, Trust
from harness.report.page.cards import sure
from harness.report.page.view import to_page
from tests.make import report_inputs

POLICY = """\
[policy]
name = "m"
version = 1
seed = 3
confidence = 0.9
resamples = 1000
power = 0.8
evidence_days = 7
attempts = 2
"""

pytestmark = [pytest.mark.usefixtures("undrawn"), pytest.mark.slow]


def known(folder: Path) -> Trust:
    """Three steps in a chain, each of two attempts planned."""
    steps = "".join(
        f'[[step]]\nname = "{name}"\ncontrol = "a"\ncandidate = "b"\ntaken = false\n'
        f'[[step.gate]]\nname = "ndcg"\nrule = "non_inferior"\n'
        'measure = "nDCG@10"\nmargin = 0.02\n'
        for name in ("shadow", "tantivy", "hybrid")
    )
    (folder / "policy.toml").write_text(POLICY + steps)
    return Trust(load_policy(folder / "policy.toml"))


@pytest.fixture
def report(tmp_path: Path) -> ReportInput:
    return replace(report_inputs.report(), trust=known(tmp_path))


def test_a_step_says_what_its_design_allows(report: ReportInput) -> None:
    said = [" ".join(sure(report, decision)) for decision in report.decisions]
    for step in said:
        assert step.endswith("False-promotion rate: the design allows 2.5 % in one attempt.")


@pytest.mark.parametrize("write", [to_page, to_markdown])
def test_people_see_the_budget(
    report: ReportInput, write: Callable[[Sequence[ReportInput]], str]
) -> None:
    said = "Error budget: 5.0 % false promotion at each control, over 2 planned attempts of 2.5 %."
    assert said in write([report])


def test_attempts_that_are_declared_are_called_so(report: ReportInput) -> None:
    assert report.trust
    declared = replace(report.trust, policy=replace(report.trust.policy, declared="no log is kept"))
    assert "Attempts are declared, not counted: no log is kept." in declared.together


def test_machines_get_the_numbers(report: ReportInput) -> None:
    written = to_json([report, report_inputs.compared_only()])
    jsonschema.validate(written, schema(), jsonschema.Draft202012Validator)
    first, second = (dataset["trust"] for dataset in written["datasets"])
    assert second is None
    assert first == {
        "alpha": {"level": 0.025, "allowed": 0.05, "attempts": 2, "declared": ""},
    }
