"""The page of a live comparison."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import date

import pytest

from harness.agreement import Class
from harness.core.scores import Estimate
from harness.report import html
from harness.report.doc import TableBlock
from harness.shadow import words as shadow_words
from harness.shadow.divergences import AcceptedDivergence, Suppressions, SuppressionStatus
from harness.shadow.page import document, side_by_side
from harness.shadow.record import Degradation, Divergence, ProblemKind
from harness.shadow.summary import LogState, Summary
from harness.shadow.words import to_json, troubles
from tests.make.shadow_records import START, attempt, bounds, divergence, seen, shed
from tests.report.test_page import Reader

pytestmark = pytest.mark.slow
TODAY = date(2026, 11, 22)
HOSTILE = "<script>alert(1)</script>\u202e&amp;"
TIES = AcceptedDivergence.of(f"known {HOSTILE}", "Ada", TODAY, kind=Class.TIE_ORDER)


def found(suppressions: tuple[AcceptedDivergence, ...] = (TIES,), twice: int = 1) -> LogState:
    """Fold a log with one of each, whose candidate shows ``twice`` documents in every answer."""
    summary, rng = Summary(bounds()), random.Random(1)
    for number in range(1, 101):
        quick = seen(elapsed_ns=rng.randint(500_000, 900_000), duplicates=twice)
        summary.see(attempt(number, text=f"q{number}", slices=("id",), candidate=quick))
    summary.see(attempt(101, text="ties", outcome=Class.TIE_ORDER, slices=("words",)))
    summary.see(attempt(102, text=HOSTILE, outcome=Class.DISJOINT, jaccard=0.0))
    summary.see(shed(103, reason=HOSTILE))
    for one in divergences().values():
        summary.tell(one)
    summary.note(Degradation(0, "w1", START, "candidate", ProblemKind.CRASH, HOSTILE))
    return LogState.of(summary, Suppressions(accepted=suppressions), today=TODAY)


def divergences() -> dict[tuple[str, int], Divergence]:
    ties = divergence(101, Class.TIE_ORDER, ["a", "b"], ["b", "a"], text="ties")
    lost = divergence(102, Class.DISJOINT, ["a", HOSTILE], ["c", "a2"], text=HOSTILE)
    lost = replace(lost, params={HOSTILE: HOSTILE})
    return {(one.writer, one.number): one for one in (ties, lost)}


def page(shown: LogState) -> str:
    times = {"control": {"p50": Estimate(1e6, 0.9e6, 1.1e6, 102), "p99": None}}
    sides = side_by_side(shown.standing, divergences())
    return html.to_page(document(shown, sides, times, TODAY, (HOSTILE,)))


def empty() -> LogState:
    return LogState(Summary(bounds()), Suppressions())


def test_the_json_is_json_and_says_the_same() -> None:
    said = to_json(found(), today=TODAY, percentiles={})
    told = json.loads(json.dumps(said, allow_nan=False))
    assert told["tally"] == {
        "attempted": 103, "compared": 102, "errored": 0, "skipped": 0, "shed": 1, "missing": 0,
    }  # fmt: skip
    assert [one["state"] for one in told["alarms"] if one["name"] == "duplicates"] == [
        "raised", "early",
    ]  # fmt: skip
    assert [one["register"] for one in told["divergences"]] == ["open", "accepted"]
    assert told["estimates"]["overlap"]["n"] == 102
    assert told["sequences"]["overlap"][-1]["n"] == 102
    assert told["blocking"] == 1
    assert json.dumps(to_json(empty(), today=TODAY, percentiles={}), allow_nan=False)


def test_an_alarm_is_told_before_answers_that_differ() -> None:
    quiet = found(twice=0)
    assert quiet.blocking
    assert shadow_words.headline(quiet).startswith("Mean Jaccard of the first hits")
    calm = replace(quiet, standing=())
    assert shadow_words.headline(calm).endswith("; every divergence is accepted.")


def test_side_by_side_shows_where_each_hit_went() -> None:
    shown = side_by_side(found().standing, divergences())
    ties = next(one for one in shown if one.trace.outcome == "tie_order")
    _, control, candidate = ties.shown().blocks
    assert isinstance(control, TableBlock)
    assert isinstance(candidate, TableBlock)
    moves = [[(row[1].text, row[2].text) for row in of.rows] for of in (control, candidate)]
    assert moves == [[("a", "down 1"), ("b", "up 1")], [("b", "up 1"), ("a", "down 1")]]
    assert ties.standing is SuppressionStatus.ACCEPTED
    assert shown[0].standing is SuppressionStatus.OPEN


def test_noise_of_the_control_is_told_beside_what_differs_without_it() -> None:
    summary = Summary(bounds())
    again = {1: Class.EXACT, 2: Class.REORDER, 3: Class.EXACT}
    for number, second in again.items():
        outcome = Class.OVERLAP if number > 1 else Class.EXACT
        summary.see(replace(attempt(number, outcome=outcome), again=second))
    text = Reader(page(shown(summary))).text
    assert "answered differently; 1 pair of them differ where it did not 0.3333" in text


WHY = "a request cannot be read: it has a length and a transfer encoding"
NOT_TAKEN = Degradation(0, "w1", START, "shadow", ProblemKind.NOT_TAKEN, WHY)


def shown(summary: Summary) -> LogState:
    return LogState(summary, Suppressions())


def test_each_query_that_was_not_taken_is_counted() -> None:
    summary = Summary(bounds())
    summary.see(attempt(1))
    for times in (1, 1, 2, 16):
        summary.note(replace(NOT_TAKEN, times=times))
    assert "; 20 served queries could not be compared" in shadow_words.headline(shown(summary))
    assert shadow_words.tally(summary).rows[0][-1].text == "20"
    (row,) = troubles(summary).rows
    assert [cell.text for cell in row] == ["not taken", "20", "no attempt"]
    assert row[0].note == WHY
    told = to_json(shown(summary), today=TODAY, percentiles={})
    assert told["not_taken"] == [{"cause": WHY, "times": 20}]
    assert told["degradations"] == []


def test_what_was_seen_lies_within_its_interval_or_there_is_none() -> None:
    """The slow share of 12 pairs and then 88 others lay outside its own interval."""
    summary = Summary(bounds())
    for number in range(1, 101):
        taken = 1_000 if number > 12 else 1_000_000
        summary.see(attempt(number, control=seen(elapsed_ns=taken)))
        for estimate in to_json(shown(summary), today=TODAY, percentiles={})["estimates"].values():
            low, high = estimate["low"], estimate["high"]
            assert low is None or low <= estimate["value"]
            assert high is None or estimate["value"] <= high
    slow = summary.tracks["slow"].now
    assert slow is not None
    assert not slow.low <= slow.value <= slow.high
    assert shadow_words.estimates(summary).rows[2][2].text == "no single value: it drifted"
