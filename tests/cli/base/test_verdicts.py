"""Decisions and means on a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cli.command import out
from harness.cli.verdicts import leaderboard, section
from harness.core.gate import OF_VERDICT, Cause, Finding, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.report.doc import Section, render_terminal

FINDING = Finding(
    gate="Speed [p95]",
    rule="latency_ratio",
    verdict=Verdict.INCONCLUSIVE,
    cause=Cause.OPEN,
    reason="ratio [0.5, 4.0]",
    bound="less than 3",
    estimate=None,
    limit=3.0,
    unit="ratio",
    remedy="a quiet machine",
)
STEP = StepDecision("tantivy", "fts5", "tantivy", taken=False, findings=(FINDING,))


def show(dataset: str, decisions: list[StepDecision]) -> None:
    out.print(render_terminal(section(dataset, decisions)))


def test_what_stands_in_the_way_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    long = replace(FINDING, reason="word " * 60 + "[end]")
    show("toy", [replace(STEP, findings=(long,))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "toy"
    assert lines[1] == "  tantivy    HOLD (inconclusive)  fts5 -> tantivy"
    assert lines[2].strip().startswith("INCONCLUSIVE: Speed [p95]: word word")
    assert lines[2].endswith("[end]")
    assert lines[3].strip() == "to reach a decision: a quiet machine"
    assert len(lines) == 4


def test_what_was_measured_stands_before_what_is_required(
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow = replace(
        FINDING, verdict=Verdict.FAIL, cause=OF_VERDICT[Verdict.FAIL], remedy="",
        estimate=Estimate(18.2517, 17.2954, 19.2625, 400), reason="p95 of 400 queries",
    )  # fmt: skip
    show("toy", [replace(STEP, findings=(slow,))])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[2:]] == [
        "FAIL: Speed [p95]: 18.3 times [17.3, 19.3]; required: less than 3",
        "p95 of 400 queries",
    ]


def test_one_cause_of_many_gates_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    busy = replace(FINDING, reason="machine too busy")
    measured = replace(busy, estimate=Estimate(2.0, 1.0, 4.0, 400))
    rows = (busy, replace(busy, gate="Mean"), measured, replace(measured, gate="p99"), FINDING)
    show("toy", [replace(STEP, findings=rows)])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[2:]] == [
        "what remains: a quiet machine",
        *(
            line
            for gate in ("Speed [p95]", "p99")
            for line in (
                f"INCONCLUSIVE: {gate}: 2.00 times [1.00, 4.00]; required: less than 3",
                "machine too busy",
                "to reach a decision: a quiet machine",
            )
        ),
        "INCONCLUSIVE: Speed [p95], Mean: machine too busy",
        "to reach a decision: a quiet machine",
        "INCONCLUSIVE: Speed [p95]: ratio [0.5, 4.0]",
        "to reach a decision: a quiet machine",
    ]


@pytest.mark.parametrize(
    ("verdict", "taken", "word"),
    [
        (Verdict.PASS, False, "PROMOTE"),
        (Verdict.FAIL, False, "HOLD"),
        (Verdict.FAIL, True, "ROLLBACK"),
    ],
)
def test_the_outcome_is_one_word(
    capsys: pytest.CaptureFixture[str],
    verdict: Verdict,
    taken: bool,  # noqa: FBT001  a parameter of the test
    word: str,
) -> None:
    found = replace(FINDING, verdict=verdict, cause=OF_VERDICT[verdict])
    show("toy", [replace(STEP, taken=taken, findings=(found,))])
    assert f"tantivy    {word}  fts5 -> tantivy" in capsys.readouterr().out


def test_a_step_that_waits_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    show("toy", [replace(STEP, blocked_by="shadow")])
    assert "waits for the step shadow" in capsys.readouterr().out


def test_the_best_arm_comes_first_and_no_value_is_a_dash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def mean(value: float) -> Estimate:
        return Estimate(value, value, value, 3)

    means = {
        "worse": {"RR@10": mean(0.25)},
        "fewer": {"RR@10": Estimate(0.3, 0.3, 0.3, 2)},
        "none": {},
        "best": {"RR@10": mean(0.5), "P@10": mean(0.125)},
    }
    out.print(render_terminal(Section("", (leaderboard(means, ["RR@10", "P@10"]),))))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert rows == [
        ["arm", "RR@10", "P@10"],
        ["best", "0.5000", "0.1250"],
        ["fewer", "0.3000", "(n", "2", "of", "3)", "-"],
        ["worse", "0.2500", "-"],
        ["none", "-", "-"],
    ]
