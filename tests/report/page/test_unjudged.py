"""What the missing judgements leave open, beside each difference."""

from __future__ import annotations

from dataclasses import replace

from harness.core.engine import Hit
from harness.core.evidence import ArmResult
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.measures.quality import score
from harness.report.inputs import ReportInput
from harness.report.page.tables import unjudged
from harness.report.rounding import MINUS
from tests.make import report_inputs


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
