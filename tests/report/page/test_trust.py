"""What is known of the judge: on the page, in the Markdown, and for machines (trust_json)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from harness.core.scores import Estimate
from harness.policy.load import load_policy
from harness.policy.selftest.operating import (
    Curve,
    Null,
    OperatingCharacteristic,
    Planted,
    Point,
    Selftest,
)
from harness.report.decision.decided import schema
from harness.report.decision.decision_json import to_json
from harness.report.decision.write import to_markdown
from harness.report.inputs import ReportInput
from harness.report.page import trust
from harness.report.page.cards import card, gate_rows
from harness.report.page.trust import Trust
from harness.report.page.view import to_page
from tests.make import report_inputs

COMMAND = "harness selftest --dataset mail"
RATE = Estimate(0.031, 0.011, 0.064, 200)
PATTERN = Planted("rare total losses", RATE)
TRIED = OperatingCharacteristic(
    "tantivy", "ndcg", "nDCG@10", 39, -0.02, (PATTERN,), None, 0.0068, RATE
)
OFTEN = Planted("rare total losses", Estimate(0.155, 0.108, 0.213, 200))
LOST = Null("tantivy", "shuffled", {"ndcg": "fail"}, as_it_should=True)
CURVE = Curve(
    "tantivy",
    "ndcg",
    "nDCG@10",
    1,
    tuple(
        Point(times, -0.02 * times, Estimate(value, value - 0.02, value + 0.02, 200))
        for times, value in ((0.0, 0.38), (0.5, 0.12), (1.0, 0.02))
    ),
)
FOUND = Selftest("mail", "m", 5, 200, 0.025, 0.8, (TRIED,), (LOST,), (CURVE,))
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


def known(folder: Path, selftest: Selftest | None = FOUND) -> Trust:
    """Three steps in a chain, the second judged twice."""
    steps = "".join(
        f'[[step]]\nname = "{name}"\ncontrol = "a"\ncandidate = "b"\ntaken = false\n'
        f'attempts = {attempts}\n[[step.gate]]\nname = "ndcg"\nrule = "non_inferior"\n'
        'measure = "nDCG@10"\nmargin = 0.02\n'
        for name, attempts in (("shadow", 1), ("tantivy", 2), ("hybrid", 1))
    )
    (folder / "policy.toml").write_text(POLICY + steps)
    return Trust(load_policy(folder / "policy.toml"), selftest, COMMAND)


@pytest.fixture
def report(tmp_path: Path) -> ReportInput:
    return replace(report_inputs.report(), trust=known(tmp_path))


def test_a_step_says_what_was_measured_and_promises_nothing(report: ReportInput) -> None:
    said = [" ".join(card(report, decision).sure) for decision in report.decisions]
    assert said[0].endswith(
        "can be tested by planted losses; the design allows 2.5 % over a single look."
    )
    assert said[1] == (
        "False-promotion rate: 3.1 % [1.1 %, 6.4 %] of the trials in which ndcg loses its whole"
        " bound (rare total losses); the design allows 5.0 % over 2 looks."
        " Power: a candidate equal to its control is promoted in 38.0 % [36.0 %, 40.0 %] of the"
        " trials."
    )


def test_a_measured_rate_above_the_design_stands_where_the_promise_stood(tmp_path: Path) -> None:
    often = replace(FOUND, gates=(replace(TRIED, planted=(OFTEN,)),))
    found = replace(report_inputs.report(), trust=known(tmp_path, often))
    for shown in (to_page([found]), to_markdown([found]).replace("\\", "")):
        assert "15.5 % [10.8 %, 21.3 %]" in shown
        assert "CONVICTED, so that a pass of theirs does not count: tantivy: ndcg." in shown
        assert "at most 2.5 %" not in shown


def test_a_gate_that_was_tried_says_how_often_it_was_wrong(report: ReportInput) -> None:
    rows = {row.gate: row.trust for row in gate_rows(report, report.decisions[1])}
    assert rows["ndcg"] == (
        "Selftest: false-promotion rate 3.1 % [1.1 %, 6.4 %] (rare total losses), false-hold rate"
        " unknown: too large to be planted, detects a loss of 0.0068"
    )
    assert not rows["overlap"]
    assert not any(row.trust for row in gate_rows(report, report.decisions[0]))


@pytest.mark.parametrize("write", [to_page, to_markdown])
def test_people_see_all_of_it(report: ReportInput, write: object) -> None:
    assert callable(write)
    shown = str(write([report]))
    assert "Error budget of all steps together, waiting for each other: 5.0 % by design" in shown
    assert "Null-model check passed." in shown
    assert shown.count("Selftest: false-promotion rate 3.1 %") == 1
    for words in ("200 trials a rate", COMMAND, "shuffled", "0.0068", "twice the bound", "38.0 %"):
        assert words in shown


@pytest.mark.parametrize("write", [to_page, to_markdown])
def test_without_a_selftest_its_command_is_named(tmp_path: Path, write: object) -> None:
    assert callable(write)
    shown = str(write([replace(report_inputs.report(), trust=known(tmp_path, None))]))
    assert f"was not measured on these queries; run: {COMMAND}" in shown
    assert "trials a rate" not in shown
    assert "check passed" not in shown


def test_an_engine_that_knows_nothing_and_passes_is_not_hidden(tmp_path: Path) -> None:
    passing = replace(LOST, verdicts={"ndcg": "pass"}, as_it_should=False)
    spoilt = known(tmp_path, replace(FOUND, nulls=(passing,)))
    assert "INVALID" in spoilt.together
    assert "INVALID" in to_page([replace(report_inputs.report(), trust=spoilt)])
    assert trust.nulls(replace(FOUND, nulls=(passing,))).rows[0][2].text == "NO"


def test_a_check_that_was_not_made_is_not_claimed(tmp_path: Path) -> None:
    untried = known(tmp_path, replace(FOUND, nulls=()))
    for shown in (untried.together, to_page([replace(report_inputs.report(), trust=untried)])):
        assert "check passed" not in shown
        assert "Null models were not tested in shadow, tantivy, hybrid" in shown
    partly = known(tmp_path).together
    assert "Null-model check passed." in partly
    assert "Null models were not tested in shadow, hybrid, because no gate is on quality" in partly


def test_machines_get_the_numbers(report: ReportInput) -> None:
    written = to_json([report, report_inputs.compared_only()])
    jsonschema.validate(written, schema(), jsonschema.Draft202012Validator)
    first, second = (dataset["trust"] for dataset in written["datasets"])
    assert second is None
    assert (first["alpha"]["together"], first["alpha"]["allowed"]) == (0.05, 0.06)
    assert first["alpha"]["steps"]["tantivy"] == {"alpha": 0.05, "attempts": 2}
    (gate,), (null,) = first["selftest"]["gates"], first["selftest"]["nulls"]
    assert gate["false_promote"] == {"value": 0.031, "low": 0.011, "high": 0.064, "n": 200}
    assert gate["planted"] == [
        {"pattern": "rare total losses", "assumed": False, "promoted": gate["false_promote"]}
    ]
    (curve,) = first["selftest"]["curves"]
    assert [point["truth"] for point in curve["points"]] == [0, -0.01, -0.02]
    assert gate["convicted"] is False
    assert gate["false_hold"] is None
    assert null["verdicts"] == {"ndcg": "fail"}
    assert first["command"] == COMMAND


def test_without_a_selftest_machines_get_none(tmp_path: Path) -> None:
    written = to_json([replace(report_inputs.report(), trust=known(tmp_path, None))])
    jsonschema.validate(written, schema(), jsonschema.Draft202012Validator)
    assert written["datasets"][0]["trust"]["selftest"] is None
