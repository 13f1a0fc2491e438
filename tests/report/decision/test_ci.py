"""The comment and the notes, of decisions made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.core.gate import OF_VERDICT, Finding, Outcome, StepDecision, Verdict
from harness.report.decision.ci import Checked, Held, Level, Loss, notes, to_markdown
from harness.report.trends import Entry, Interval, StepKept

ENTRY = Entry(
    decision_sha256="0" * 64,
    decided_at=datetime(2026, 1, 1, tzinfo=UTC),
    dataset="pages",
    commit="",
    code="c",
    python="3.12",
    packages={},
    data={"corpus": "1", "queries": "2", "qrels": "3"},
    policy=None,
    measure="nDCG@10",
    steps=(),
    means={"own": {"nDCG@10": Interval(value=0.5, low=0.4, high=0.6, n=9)}, "none": {}},
)
LOSS = Loss("q1", "two words", 0.75, 0.25, "")


def finding(verdict: Verdict) -> Finding:
    return Finding(
        "quality",
        "non_inferior",
        verdict,
        OF_VERDICT[verdict],
        "it lost",
        "b",
        None,
        None,
        "",
        "ask more",
    )


def checked(verdict: Verdict, *losses: Loss, blocked_by: str = "") -> Checked:
    decision = StepDecision("own", "fts5", "own", False, (finding(verdict),), blocked_by)  # noqa: FBT003
    held = (Held("own", "fts5", losses or (LOSS,), verdict),)
    return Checked("out", ENTRY, (decision,), held, file="data/q.jsonl", lines={"q1": 4})


@pytest.mark.parametrize(
    ("verdict", "level", "word"),
    [
        (Verdict.FAIL, Level.ERROR, "HOLD"),
        (Verdict.INCONCLUSIVE, Level.WARNING, "HOLD (inconclusive)"),
        (Verdict.PASS, Level.WARNING, "PROMOTE"),
    ],
)
def test_a_loss_is_an_error_only_where_a_gate_fails(
    verdict: Verdict, level: Level, word: str
) -> None:
    found = checked(verdict)
    (note,) = notes(found, 5)
    assert (note.level, note.file, note.line) == (level, "data/q.jsonl", 4)
    assert note.message == "q1 (two words): 0.7500 → 0.2500"
    assert f"| own | fts5 → own | {word} |" in to_markdown(found, 5)


def test_what_would_settle_it_is_said() -> None:
    said = to_markdown(checked(Verdict.INCONCLUSIVE, blocked_by="before"), 5)
    assert "- INCONCLUSIVE own, quality: it lost To reach a decision: ask more" in said
    assert "- own waits for before" in said
    assert "\n- " not in to_markdown(checked(Verdict.PASS), 5)


def test_no_answer_is_said_in_words() -> None:
    found = checked(Verdict.FAIL, replace(LOSS, now=None, instead="timed_out"))
    assert notes(found, 5)[0].message == "q1 (two words): 0.7500 → timed_out"
    assert "| q1 | 4 | two words | 0.7500 | timed\\_out |" in to_markdown(found, 5)


def test_a_query_without_a_line_is_noted_without_a_file() -> None:
    (note,) = notes(checked(Verdict.FAIL, replace(LOSS, query_id="q2")), 5)
    assert (note.file, note.line) == ("", None)


def test_an_arm_without_a_mean_has_no_number() -> None:
    assert "| none | ∅ |" in to_markdown(checked(Verdict.PASS), 5)


def test_only_the_most_are_named() -> None:
    many = [replace(LOSS, query_id=f"q{at}") for at in range(30)]
    found = checked(Verdict.FAIL, *many)
    assert [note.message.split()[0] for note in notes(found, 3)] == ["q0", "q1", "q2"]
    said = to_markdown(found, 3)
    assert "30 in nDCG@10; shown: 3." in said
    assert "q3" not in said


def test_no_text_of_strangers_is_markup() -> None:
    evil = "a | b\n# c <img src=x> [d](https://e) @f <!-- g --> ```"
    found = replace(checked(Verdict.FAIL, replace(LOSS, text=evil)), place="--> <script>")
    said = to_markdown(found, 5)
    (row,) = (line for line in said.splitlines() if line.startswith("| q1 |"))
    assert "a \\| b \\# c &lt;img src=x&gt; \\[d\\](https&#58;//e) &#64;f" in row
    assert "<script>" not in said
    assert "<img" not in said


def test_a_step_that_was_not_there_is_said() -> None:
    old = StepKept(
        step="own", control="fts5", candidate="own", verdict=Verdict.FAIL, outcome=Outcome.HOLD,
        gates={}, ratios={},
    )  # fmt: skip
    found = replace(checked(Verdict.PASS), baseline=ENTRY)
    assert "| own | fts5 → own | PROMOTE | not there | 1 of 1 gates pass |" in to_markdown(found, 5)
    was = replace(found, baseline=ENTRY.model_copy(update={"steps": (old,)}))
    assert "| own | fts5 → own | PROMOTE | HOLD | 1 of 1 gates pass |" in to_markdown(was, 5)


def test_a_difference_of_means_is_signed() -> None:
    then = ENTRY.model_copy(
        update={"means": {"own": {"nDCG@10": Interval(value=0.4, low=None, high=None, n=9)}}}
    )
    said = to_markdown(replace(checked(Verdict.PASS), baseline=then, changed=("the code",)), 5)
    assert "| own | 0.5000 | 0.4000 | +0.1000 |" in said
    assert "Other than in the baseline: the code." in said
