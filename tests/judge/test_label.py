"""A machine judges a pool: rows say who judged, nothing is paid twice, nothing is mixed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.core.errors import BadFile, DatasetError
from harness.core.folders import NotOurs
from harness.corpus import judgements, trec
from harness.judge.label import estimate, opened
from harness.judge.machine import JudgeChanged, OverBudget, Purse, Unlabelled
from tests.make.desk import ENDPOINT, KEY, OVERLAP, Desk, desk, write_pool
from tests.make.judge_server import Reply, completion, graded

PAID = 100 * 1000 / 1e6 + 10 * 5000 / 1e6
"""What an answer costs, by the usage that the server names."""


def test_every_row_says_who_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, graded(0.1, 0.2, 0.7)) as at:
        done = at.label()
    rows = judgements.read_labels(at.to)
    assert rows == done.labels
    assert {(row.by, row.kind, row.model, row.grade) for row in rows} == {
        ("grader", "machine", "toy-1", 2)
    }
    assert {len(row.template) for row in rows} == {64}
    assert rows[0].probabilities == (0.1, 0.2, 0.7)
    assert rows[0].cost == pytest.approx(PAID)
    assert rows[0].note == "because"
    assert done.cost == pytest.approx(4 * PAID)
    assert judgements.read_pool(at.pool).grades == (None,) * 4


def test_no_reader_of_judgements_takes_labels_for_them(tmp_path: Path) -> None:
    at = Desk(tmp_path)
    at.label(OVERLAP)
    with pytest.raises(BadFile, match="fields, not 4"):
        trec.qrels(at.to)
    with pytest.raises(BadFile, match="overlap is a machine, and labels of a person are read"):
        judgements.judgements(at.to, "person")
    assert judgements.judgements(at.to, "machine").grades == {
        "q0": {"d0": 0}, "q1": {"d1": 0}, "q2": {"d2": 1}, "q3": {"d3": 1},
    }  # fmt: skip
    other = at.to.read_text().replace('"by": "overlap"', '"by": "another"', 1)
    at.to.write_text(other)
    with pytest.raises(BadFile, match="holds labels of 2 judges: another"):
        judgements.judgements(at.to, "machine")


def test_what_was_answered_is_not_paid_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third request is refused for good, as by a power cut; the same command goes on."""
    refused = Reply(b"no", 401)
    with desk(tmp_path, monkeypatch, graded(1, 0, 0), graded(0, 1, 0), refused) as at:
        with pytest.raises(Exception, match=r"HTTP 401 .* the same command goes on"):
            at.label()
        assert not at.to.exists()
        assert at.server is not None
        at.server.script = [graded(0, 0, 1)]
        done = at.label()
        assert done.sent == 2
        assert [row.grade for row in done.labels] == [0, 1, 2, 2]
        assert len(at.server.seen) == 5
        assert at.label().sent == 0
        assert len(at.server.seen) == 5


def test_two_commands_at_once_pay_a_pair_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, graded(1, 0, 0)) as at, ThreadPoolExecutor(2) as both:
        at.file.write_text(ENDPOINT)  # two calls that both write it would empty it under each other
        done = [one.result() for one in [both.submit(at.label) for _ in range(2)]]
    assert at.server is not None
    assert len(at.server.seen) == 4
    assert sum(one.sent for one in done) == 4


def test_a_judge_that_changes_its_model_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = graded(1, 0, 0), graded(1, 0, 0), graded(1, 0, 0, model="toy-2")
    with desk(tmp_path, monkeypatch, *script) as at:
        for _ in range(2):
            with pytest.raises(JudgeChanged, match=r"INVALID: .* changed its model: toy-1, toy-2"):
                at.label()
        assert at.server is not None
        assert len(at.server.seen) == 3
        assert not at.to.exists()
        anew = at.label(ENDPOINT.replace("grader", "grader-2"))
    assert {row.model for row in anew.labels} == {"toy-2"}


def test_a_model_that_changed_before_the_next_pool_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, graded(1, 0, 0)) as at:
        at.label()
        assert at.server is not None
        at.server.script = [graded(1, 0, 0, model="toy-2")]
        (tmp_path / "b").mkdir()
        at.pool, at.to = write_pool(tmp_path / "b", title="another"), tmp_path / "b.jsonl"
        with pytest.raises(JudgeChanged):
            at.label()


def test_a_budget_is_never_exceeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, graded(1, 0, 0)) as at:
        at.file.write_text(ENDPOINT)
        with opened(at.file, at.kept) as (judge, answers):
            most = estimate(at.pool, judge, answers).most
        budget = f"budget = {most / 4 + 2.5 * PAID}"
        with pytest.raises(OverBudget, match=r"cost 0\.4500 of its budget .* Raise budget"):
            at.label(ENDPOINT.replace("budget = 100.0", budget))
        assert at.server is not None
        assert len(at.server.seen) == 3
        assert at.label().sent == 1


def test_a_dry_run_sends_nothing_and_bounds_the_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, graded(1, 0, 0)) as at:
        at.file.write_text(ENDPOINT)
        with opened(at.file, at.kept) as (judge, answers):
            before = estimate(at.pool, judge, answers)
            assert at.server is not None
            assert not at.server.seen
            assert before.known == 0
            assert 4 * 0.1 * 5000 / 1e6 < before.likely < before.most
            at.label()
            after = estimate(at.pool, judge, answers)
    assert (after.known, after.most, after.tokens) == (4, 0, 0)


def test_a_pair_without_an_answer_has_no_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prose = completion("I would say it is quite relevant.")
    with desk(tmp_path, monkeypatch, graded(1, 0, 0), prose, prose, prose, graded(0, 1, 0)) as at:
        done = at.label()
    assert [row.query_id for row in done.labels] == ["q0", "q2", "q3"]
    ((query_id, doc_id, why),) = done.lacking
    assert (query_id, doc_id) == ("q1", "d1")
    assert "the answer is not JSON: I would say it is quite relevant. (attempts: 3)" in why


def test_three_pairs_without_an_answer_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, completion("prose")) as at:
        with pytest.raises(Unlabelled, match="the answer is not JSON"):
            at.label()
        assert at.server is not None
        assert len(at.server.seen) == 9
        assert not at.to.exists()


def test_what_failed_is_paid_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, completion("prose"), graded(1, 0, 0)) as at:
        done = at.label()
        spent = json.loads((at.kept / "grader" / "spent.json").read_text())["spent"]
    assert done.retries == 1
    assert done.cost == pytest.approx(5 * PAID)
    assert spent == pytest.approx(done.cost)
    assert done.labels[0].cost == pytest.approx(2 * PAID)


def test_a_request_that_was_cut_off_counts_with_its_most(tmp_path: Path) -> None:
    Purse(tmp_path / "spent.json", 1.0).reserve(0.7)
    after = Purse(tmp_path / "spent.json", 1.0)
    assert after.spent == 0.7
    with pytest.raises(OverBudget):
        after.reserve(0.4)
    (tmp_path / "spent.json").write_text("{")
    with pytest.raises(BadFile, match=r"spent\.json:1: not what a judge has cost"):
        after.reserve(0.1)


def test_a_file_of_somebodys_own_is_not_replaced(tmp_path: Path) -> None:
    at = Desk(tmp_path)
    at.to.write_text("my own")
    with pytest.raises(NotOurs, match="is there already"):
        at.label(OVERLAP)
    at.to.unlink()
    at.label(OVERLAP)
    at.label(OVERLAP)
    with pytest.raises(NotOurs, match="is there already"):
        at.label(OVERLAP.replace('"overlap"\nkind', '"another"\nkind'))


def test_cuts_for_another_scale_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="tells 2 grades apart, and the pool has 3: 0, 1, 2"):
        Desk(tmp_path).label(OVERLAP.replace("[0.4, 0.8]", "[0.4]"))


def test_the_key_is_sent_and_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, graded(1, 0, 0)) as at:
        at.label()
        assert at.server is not None
        assert set(at.server.keys) == {f"Bearer {KEY}"}
        at.server.script = [Reply(f"bad key {KEY}".encode(), 403)]
        at.to = tmp_path / "other.jsonl"
        with pytest.raises(Exception, match="HTTP 403") as said:
            at.label(ENDPOINT.replace("grader", "other"))
    assert KEY not in str(said.value)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
