"""The queries that moved most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.core.engine import Hit
from harness.core.run import Row, Run, Status
from harness.core.scores import Paired
from harness.report.page.queries import furthest, instead_of, move, movers
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
