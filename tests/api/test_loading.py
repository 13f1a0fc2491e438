"""Files become runs and judgements, by the ending of their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.api.data import load_qrels, load_run
from harness.core.errors import BadFile
from harness.corpus.runs import write_run
from harness.corpus.trec import write_run as write_trec
from tests.api.conftest import Small


def test_our_file_and_a_trec_file_of_one_run_rank_alike(tmp_path: Path, small: Small) -> None:
    write_run(small.better, tmp_path / "run.parquet")
    write_trec(tmp_path / "other.trec", small.better)
    ours, theirs = load_run(tmp_path / "run.parquet"), load_run(tmp_path / "other.trec")
    assert (ours.arm, theirs.arm) == ("better", "other")
    assert ours.query_ids == theirs.query_ids
    assert [ours.ranking(q) for q in ours.query_ids] == [theirs.ranking(q) for q in ours.query_ids]


def test_a_run_can_be_given_another_name(tmp_path: Path, small: Small) -> None:
    write_run(small.worse, tmp_path / "run.parquet")
    write_trec(tmp_path / "run.txt", small.worse)
    found = [load_run(str(tmp_path / name), arm="mine") for name in ("run.parquet", "run.txt")]
    assert [run.arm for run in found] == ["mine", "mine"]


def test_judgements_with_tabs_and_as_trec_are_one(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 2\nq1 0 d2 0\n")
    found = [load_qrels(tmp_path / name) for name in ("test.tsv", "qrels.txt")]
    assert found[0].grades == found[1].grades == {"q1": {"d1": 2, "d2": 0}}


@pytest.mark.parametrize("load", [load_run, load_qrels])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, load: object) -> None:
    assert callable(load)
    with pytest.raises(BadFile, match=r"absent\.trec"):
        load(tmp_path / "absent.trec")


def test_a_spoilt_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2\n")
    with pytest.raises(BadFile, match=r"a\.run:2: the line has 4 fields"):
        load_run(tmp_path / "a.run")
