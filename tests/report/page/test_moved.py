"""The queries that moved most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from harness.core.engine import Hit
from harness.core.records import Document
from harness.core.run import Row, Run, Status
from harness.core.scores import Paired
from harness.report.page.queries import furthest, instead, movers
from harness.report.rounding import MINUS
from tests.make import report_inputs


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


def test_documents_are_asked_for_once_and_only_those_shown() -> None:
    asked: list[frozenset[str]] = []

    def documents(ids: frozenset[str]) -> Mapping[str, Document]:
        asked.append(ids)
        return {}

    found = movers(replace(report_inputs.report(), documents=documents), 2)
    shown = {
        hit.doc_id
        for each in found.values()
        for moved in (*each.worse, *each.better)
        for ranking in (moved.control, moved.candidate)
        for hit in ranking.hits
    }
    assert asked == [shown]


def test_moves_are_told_from_control_to_candidate() -> None:
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]

    def showing(side: str, *ids: str) -> Run:
        hits = [Hit(doc_id, 1.0, 1.0) for doc_id in ids]
        return Run.of(side, [Row(q, Status.ANSWERED, hits) for q in report.queries])

    control = replace(evidence.control, run=showing("fts5-default", "d001", "d002", "d003"))
    candidate = replace(evidence.candidate, run=showing("tantivy-default", "d003", "d002", "d004"))
    changed = replace(evidence, control=control, candidate=candidate)
    moved = movers(replace(report, evidence={"tantivy": changed}), 1)["tantivy"].worse[0]
    assert [(h.doc_id, h.move) for h in moved.control.hits] == [
        ("d001", "gone"), ("d002", "same"), ("d003", "up 2"),
    ]  # fmt: skip
    assert [(h.doc_id, h.move) for h in moved.candidate.hits] == [
        ("d003", "up 2"), ("d002", "same"), ("d004", "new"),
    ]  # fmt: skip


def test_unjudged_is_not_grade_zero() -> None:
    report = report_inputs.report()
    found = movers(report, 10)["tantivy"]
    hits = [(m.query_id, h) for m in found.worse for h in m.candidate.hits]
    for query_id, hit in hits:
        assert hit.grade == report.qrels.grades[query_id].get(hit.doc_id)
    assert {hit.grade for _, hit in hits} >= {None, 0}


def test_a_failure_is_not_an_empty_answer() -> None:
    report = report_inputs.report()
    hybrid = report.arms["hybrid-rrf"]
    assert instead(hybrid, report.queries["q05"]).startswith("failed: disk I/O")
    assert instead(hybrid, report.queries["q11"]) == "found nothing"
    rows = [Row("q00", Status.TIMED_OUT), Row("q01", Status.NOT_ASKED)]
    other = replace(hybrid, run=Run.of("other", rows))
    assert instead(other, report.queries["q00"]) == "timed out"
    assert instead(other, report.queries["q01"]) == "was not asked"


def test_a_document_that_left_the_corpus_is_said_so() -> None:
    found = movers(replace(report_inputs.report(), documents=lambda _: {}), 1)["tantivy"]
    assert {hit.snippet for hit in found.worse[0].control.hits} == {"not in the corpus"}


def test_a_move_says_how_much_is_by_what_is_shown_and_how_much_by_its_order() -> None:
    """Candidate shows what the control shows, the other way round: all is by the order."""
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    query_id = movers(report, 1)["tantivy"].worse[0].query_id
    grades = report.qrels.grades[query_id]
    good = next(doc_id for doc_id, grade in grades.items() if grade > 0)
    known = (f"d{at:03}" for at in range(1, 7))
    bad, worse = [doc_id for doc_id in known if grades.get(doc_id, 0) <= 0][:2]

    def showing(side: str, *ids: str) -> Run:
        hits = [Hit(doc_id, 1.0, 1.0) for doc_id in ids]
        return Run.of(side, [Row(q, Status.ANSWERED, hits) for q in report.queries])

    def parts(*shown: str) -> str:
        control = replace(evidence.control, run=showing("fts5-default", good, bad))
        candidate = replace(evidence.candidate, run=showing("tantivy-default", *shown))
        changed = replace(evidence, control=control, candidate=candidate)
        return movers(replace(report, evidence={"tantivy": changed}), 1)["tantivy"].worse[0].parts

    assert parts(bad, good).startswith(f"by what is shown 0, by its order {MINUS}0.")
    assert parts(worse, bad).startswith(f"by what is shown {MINUS}0.")
    assert parts(worse, bad).endswith("by its order 0")
