"""Which queries lost, and what a file is called in its repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.records import Query
from harness.pipeline.ci import _decided, lost, seen_from_root
from tests.make.runs import scores_of

TEXTS = {name: Query(name, f"text of {name}") for name in "abcdef"}


def test_the_largest_loss_comes_first_and_no_gain_at_all() -> None:
    before = scores_of({"a": 0.5, "b": 1.0, "c": 0.2, "d": 1.0})
    now = scores_of({"a": 0.4, "b": 0.2, "c": 0.3, "d": 1.0})
    found = lost(before, now, TEXTS)
    assert [(loss.query_id, loss.before, loss.now) for loss in found] == [
        ("b", 1.0, 0.2),
        ("a", 0.5, 0.4),
    ]
    assert found[0].text == "text of b"


def test_equal_losses_go_by_id() -> None:
    before, now = scores_of({"b": 1.0, "a": 1.0}), scores_of({"b": 0.5, "a": 0.5})
    assert [loss.query_id for loss in lost(before, now, TEXTS)] == ["a", "b"]


def test_no_answer_is_worse_than_any_number_and_is_none() -> None:
    before = scores_of({"a": 1.0, "b": 0.0, "c": 0.5}, failed="d")
    now = scores_of({"a": 0.0}, timed_out="bc", failed="d")
    found = lost(before, now, TEXTS)
    assert [(loss.query_id, loss.now, loss.instead) for loss in found] == [
        ("b", None, "timed_out"),
        ("c", None, "timed_out"),
        ("a", 0.0, ""),
    ]


def test_a_query_that_only_now_has_an_answer_lost_nothing() -> None:
    assert lost(scores_of({}, failed="a"), scores_of({"a": 0.1}), TEXTS) == ()


def test_a_file_is_called_as_its_repository_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep")
    assert seen_from_root(Path("data/q.jsonl")) == "data/q.jsonl"
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    assert seen_from_root(Path("data/q.jsonl")) == "deep/data/q.jsonl"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"datasets": []}', "\udcff"])
def test_what_is_no_decision_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "decision.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadFile, match=r"decision\.json"):
        _decided(tmp_path / "decision.json", {}, "nDCG@10")
