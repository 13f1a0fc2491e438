"""What is known of the judge: on the page, in the Markdown, and for machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from harness.core.scores import Estimate
from harness.policy.load import load_policy
from harness.policy.tried import Null, Selftest, Tried
from harness.report import trust
from harness.report.cards import card, gate_rows
from harness.report.decided import schema
from harness.report.decision_json import to_json
from harness.report.inputs import ReportInput
from harness.report.markdown import to_markdown
from harness.report.page import to_page
from harness.report.trust import Trust
from tests.report import builder

COMMAND = "harness selftest --dataset mail"
RATE = Estimate(0.031, 0.011, 0.064, 200)
TRIED = Tried("tantivy", "ndcg", "nDCG@10", 39, -0.02, RATE, None, 0.0068, RATE)
LOST = Null("tantivy", "shuffled", {"ndcg": "fail"}, as_it_should=True)
FOUND = Selftest("mail", "m", 5, 200, 0.025, 0.8, (TRIED,), (LOST,))
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


def known(folder: Path, selftest: Selftest | None = FOUND) -> Trust:
    """Three steps in a chain, the second judged twice."""
    steps = "".join(
        f'[[step]]\nname = "{name}"\ncontrol = "a"\ncandidate = "b"\ntaken = false\n'
        f'attempts = {attempts}\n[[step.gate]]\nname = "who"\nrule = "identity"\n'
        for name, attempts in (("shadow", 1), ("tantivy", 2), ("hybrid", 1))
    )
    (folder / "policy.toml").write_text(POLICY + steps)
    return Trust(load_policy(folder / "policy.toml"), selftest, COMMAND)


@pytest.fixture
def report(tmp_path: Path) -> ReportInput:
    return replace(builder.report(), trust=known(tmp_path))


def test_a_step_says_what_it_may_err(report: ReportInput) -> None:
    said = [card(report, decision).errs for decision in report.decisions]
    assert "at most 2.5 % (judged once)" in said[0]
    assert "at most 5.0 % (judged 2 times)" in said[1]


def test_a_gate_that_was_tried_says_how_often_it_was_wrong(report: ReportInput) -> None:
    rows = {row.gate: row.trust for row in gate_rows(report, report.decisions[1])}
    assert rows["ndcg"] == (
        "Selftest: passes wrongly 3.1 % [1.1 %, 6.4 %], holds wrongly unknown: too large to be"
        " planted, sees a loss of 0.0068"
    )
    assert not rows["overlap"]
    assert not any(row.trust for row in gate_rows(report, report.decisions[0]))


@pytest.mark.parametrize("write", [to_page, to_markdown])
def test_people_see_all_of_it(report: ReportInput, write: object) -> None:
    assert callable(write)
    shown = str(write([report]))
    assert "a wrong promotion with a chance of at most 5.0 % (allowed 6.0 %)" in shown
    assert "An engine that knows nothing loses, as it must." in shown
    assert shown.count("passes wrongly 3.1 %") == 1
    for words in ("200 trials a rate", COMMAND, "shuffled", "0.0068"):
        assert words in shown


@pytest.mark.parametrize("write", [to_page, to_markdown])
def test_without_a_selftest_its_command_is_named(tmp_path: Path, write: object) -> None:
    assert callable(write)
    shown = str(write([replace(builder.report(), trust=known(tmp_path, None))]))
    assert f"was not tried; run: {COMMAND}" in shown
    assert "trials a rate" not in shown
    assert "as it must" not in shown


def test_an_engine_that_knows_nothing_and_passes_is_not_hidden(tmp_path: Path) -> None:
    passing = replace(LOST, verdicts={"ndcg": "pass"}, as_it_should=False)
    spoilt = known(tmp_path, replace(FOUND, nulls=(passing,)))
    assert "INVALID" in spoilt.together
    assert "INVALID" in to_page([replace(builder.report(), trust=spoilt)])
    assert trust.nulls(replace(FOUND, nulls=(passing,))).rows[0][2].text == "NO"


def test_machines_get_the_numbers(report: ReportInput) -> None:
    written = to_json([report, builder.compared_only()])
    jsonschema.validate(written, schema(), jsonschema.Draft202012Validator)
    first, second = (dataset["trust"] for dataset in written["datasets"])
    assert second is None
    assert (first["alpha"]["together"], first["alpha"]["allowed"]) == (0.05, 0.06)
    assert first["alpha"]["steps"]["tantivy"] == {"alpha": 0.05, "attempts": 2}
    (gate,), (null,) = first["selftest"]["gates"], first["selftest"]["nulls"]
    assert gate["false_promote"] == {"value": 0.031, "low": 0.011, "high": 0.064, "n": 200}
    assert gate["false_hold"] is None
    assert null["verdicts"] == {"ndcg": "fail"}
    assert first["command"] == COMMAND


def test_without_a_selftest_machines_get_none(tmp_path: Path) -> None:
    written = to_json([replace(builder.report(), trust=known(tmp_path, None))])
    jsonschema.validate(written, schema(), jsonschema.Draft202012Validator)
    assert written["datasets"][0]["trust"]["selftest"] is None
