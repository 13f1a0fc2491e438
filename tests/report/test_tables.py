"""Tables of quality, agreement and moved queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.core.engine import Hit
from harness.core.evidence import ArmResult
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.core.scores import Estimate, Paired
from harness.measures.quality import score
from harness.report.inputs import ReportInput
from harness.report.page import figures, tables
from harness.report.page.cards import merged
from harness.report.page.queries import furthest, instead_of, move, movers
from harness.report.page.tables import unjudged
from harness.report.rounding import MINUS
from tests.make import report_inputs


def test_arms_are_ordered_by_the_first_measure() -> None:
    found = {
        "a": {"x": Estimate(0.1, 0, 1, 3)},
        "b": {"y": Estimate(0.9, 0, 1, 3)},
        "c": {"x": Estimate(0.2, 0, 1, 3)},
    }
    assert tables.best_first(found, "x") == ("c", "a", "b")
    assert tables.measures_of(found, "y") == ("y", "x")


def test_an_arm_without_scores_is_on_the_leaderboard() -> None:
    report = report_inputs.report()
    shown = tables.leaderboard(replace(report, means={"extra": {}, **report.means})).rows
    assert shown[-1][0].text == "extra"
    assert {cell.text for cell in shown[-1][1:]} == {"not measured"}
    silent = {arm: row for arm, row in report.means.items() if arm != "hybrid-rrf"}
    arms = [row[0].text for row in tables.leaderboard(replace(report, means=silent)).rows]
    assert arms[-1] == "hybrid-rrf"


def test_failures_are_counted_beside_the_mean() -> None:
    rows = {row[0].text: row for row in tables.leaderboard(report_inputs.report()).rows}
    assert "39 answered, 1 failed" in rows["hybrid-rrf"][-1].text
    assert "failed" not in rows["fts5-default"][-1].text


def test_undefined_agreement_is_words_and_counted() -> None:
    rows = {
        row[0].text: row
        for row in tables.agreement(report_inputs.report().evidence["tantivy"]).rows
    }
    assert rows["tau"][1].text == "not defined for any query"
    assert rows["tau"][1].note == "n 0, 40 undefined"


def test_classes_stand_beside_the_noise() -> None:
    evidence = report_inputs.report().evidence["hybrid"]
    rows = {row[0].text: (row[1].text, row[2].text) for row in tables.classes(evidence).rows}
    assert rows["error"] == ("1", "none")
    assert rows["exact"][1] == "40"


def test_times_of_an_unverified_arm_are_not_shown() -> None:
    report = report_inputs.report()
    assert report.latency is not None
    rows = {row[0].text: row for row in figures.percentiles(report.latency).rows}
    assert {cell.text for cell in rows["hybrid-rrf"][1:]} == {"not shown"}
    assert rows["fts5-default"][-1].note.endswith("unbounded]")
    ratios = {row[0].text: row for row in figures.ratios(report, report.latency).rows}
    assert {cell.text for cell in ratios["hybrid"][1:]} == {"not shown"}
    assert ratios["tantivy"][1].text == "1.823"
    assert ratios["fts5-default in other processes (A/A)"][2].text == "not measured"


def test_silence_about_verification_is_a_no() -> None:
    report = report_inputs.report()
    assert report.latency is not None
    silent = replace(report.latency, race=replace(report.latency.race, verified={}))
    assert report.trusted_ratios(silent) == {}
    assert not silent.is_verified("fts5-default")


def test_provenance_names_the_policy_and_its_absence() -> None:
    assert "mail-migration 2026-11" in dict(tables.provenance(report_inputs.report()))["policy"]
    assert dict(tables.provenance(report_inputs.compared_only()))["policy"] == "none"


def test_differences_by_slice_have_a_column_a_comparison() -> None:
    report = merged(report_inputs.report())
    found = tables.slice_differences(report)
    assert found.header[0] == "slice"
    assert len(found.header) == 1 + len(report.evidence)
    assert [row[0].text for row in found.rows] == ["identifier", "natural language", "phrase"]
    for row in found.rows:
        assert all("[" in cell.note and "n " in cell.note for cell in row[1:])


def pairs(differences: list[float]) -> Paired:
    ids = tuple("abcdefgh"[: len(differences)])
    return Paired("m", ids, np.zeros(len(differences)), np.array(differences), ())


def test_losses_and_gains_largest_first_ties_by_id() -> None:
    worse, better = furthest(pairs([0.0, -0.1, 0.3, -0.5, 0.3, -0.1]), 2)
    assert worse == ("d", "b")
    assert better == ("c", "e")


def test_what_did_not_move_is_not_listed() -> None:
    assert furthest(pairs([0.0, 0.0]), 5) == ((), ())
    found = movers(report_inputs.report(), 10)["shadow"]
    assert (found.worse, found.better) == ((), ())
    assert found.instead == "No query moved in nDCG@10."


@pytest.mark.parametrize(
    ("rank", "other", "in_control", "in_candidate"),
    [(1, None, "gone", "new"), (2, 2, "same", "same"), (3, 1, "up 2", "down 2"),
     (1, 3, "down 2", "up 2")],
)  # fmt: skip
def test_moves_are_told_from_control_to_candidate(
    rank: int, other: int | None, in_control: str, in_candidate: str
) -> None:
    assert move(rank, other, candidate=False) == in_control
    assert move(rank, other, candidate=True) == in_candidate


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.ANSWERED, "found nothing"),
        (Status.FAILED, "failed: disk full"),
        (Status.TIMED_OUT, "timed out"),
        (Status.NOT_ASKED, "was not asked"),
    ],
)
def test_a_failure_is_not_an_empty_answer(status: Status, said: str) -> None:
    assert instead_of(status, "disk full") == said


def test_a_move_says_how_much_is_by_what_is_shown_and_how_much_by_its_order() -> None:
    """Candidate shows what the control shows, the other way round: all is by the order."""
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    query_id = movers(report, 1)["tantivy"].worse[0].query.query_id
    grades = report.qrels.grades[query_id]
    good = next(doc_id for doc_id, grade in grades.items() if grade > 0)
    known = (f"d{at:03}" for at in range(1, 7))
    bad, worse = [doc_id for doc_id in known if grades.get(doc_id, 0) <= 0][:2]

    def showing(side: str, *ids: str) -> Run:
        hits = [Hit(doc_id, 1.0, 1.0) for doc_id in ids]
        return Run.of(side, [Row(q, Status.ANSWERED, hits) for q in report.queries])

    def parts(*shown: str) -> tuple[float, float]:
        control = replace(evidence.control, run=showing("fts5-default", good, bad))
        candidate = replace(evidence.candidate, run=showing("tantivy-default", *shown))
        changed = replace(evidence, control=control, candidate=candidate)
        (lost,) = movers(replace(report, evidence={"tantivy": changed}), 1)["tantivy"].worse
        return lost.shown, lost.order

    shown, order = parts(bad, good)
    assert shown == 0 > order
    shown, order = parts(worse, bad)
    assert shown < 0 == order


def judged(measure: str, *measures: str) -> ReportInput:
    """Control shows what is good first, the candidate what nobody judged and then what is good."""
    report = report_inputs.report()
    qrels = Qrels({query_id: {"d001": 1} for query_id in report.queries})

    def side(of: ArmResult, *ids: str) -> ArmResult:
        hits = [Hit(doc_id, 1.0, 1.0) for doc_id in ids]
        run = Run.of(of.arm, [Row(q, Status.ANSWERED, hits) for q in report.queries])
        return replace(of, run=run, scores=score(run, qrels, measures, tuple(report.queries)))

    evidence = report.evidence["tantivy"]
    control, candidate = evidence.control, evidence.candidate
    changed = replace(
        evidence, control=side(control, "d001"), candidate=side(candidate, "d002", "d001")
    )
    return replace(report, measure=measure, qrels=qrels, evidence={"tantivy": changed})


def test_a_difference_stands_beside_what_could_become_of_it() -> None:
    (row,) = unjudged(judged("RR@10", "RR@10", "Judged@10")).rows
    assert [cell.text for cell in row] == [
        "tantivy", "1.000", "0.5000", f"{MINUS}0.5000", "0", f"{MINUS}0.5000 to 0",
    ]  # fmt: skip


def test_bounds_that_are_not_reached_say_so() -> None:
    for measure in ("AP@10", "Bpref"):
        (row,) = unjudged(judged(measure, measure)).rows
        assert row[1].text == "not measured"
        assert row[5].note == "outer bounds, not reached"


def test_a_measure_that_no_judgement_moves_says_so() -> None:
    (row,) = unjudged(judged("Judged@10", "Judged@10")).rows
    assert row[5].text == "Judged@10 has no bounds"


def test_complete_judgements_leave_nothing_and_say_why() -> None:
    report = judged("RR@10", "RR@10")
    said = replace(report.evidence["tantivy"], complete="known items")
    (row,) = unjudged(replace(report, evidence={"tantivy": said})).rows
    assert row[5].text == "nothing: its judgements are complete"
    assert row[5].note == "known items"


def test_where_no_query_has_a_value_there_is_no_row() -> None:
    assert unjudged(judged("RR@10", "nDCG@10")).rows == ()
