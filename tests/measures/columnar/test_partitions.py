"""Runs in parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.core.errors import BadFile, UnknownName
from harness.core.run import Row, Run, Status
from harness.corpus import runs
from harness.measures.columns import EncodedQrels
from harness.measures.name import COMMON
from harness.measures.partitions import joined, partial_scores
from harness.measures.quality import score
from tests.make.runs import qrels_of, random_case

NAMES = (*COMMON, "NumRet", "Bpref", "R(rel=2)@10", "nDCG(gains={1: 0, 2: 5})@10")


@pytest.mark.parametrize("size", [1, 7, 100])
def test_parts_say_what_the_whole_says(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PARTITION", size)
    whole, qrels = random_case(5)
    rows = [
        row._replace(status=Status.FAILED, hits=()) if row.query_id == "q3" else row
        for row in whole.rows()
        if row.query_id != "q4"
    ]
    slow = Row("slow", Status.TIMED_OUT)
    run = Run.of("arm", [*reversed(rows), slow, Row("free", Status.ANSWERED, rows[0].hits)])
    grades = {q: dict(docs) for q, docs in qrels.grades.items()}
    qrels = qrels_of({**grades, "slow": {"d1": 1}, "q7": {"d1": 0}})
    runs.write_run(run, tmp_path / "run.parquet")
    assert pq.ParquetFile(tmp_path / "run.parquet").num_row_groups == -(-len(run) // size)
    coded, path = EncodedQrels.of(qrels), tmp_path / "run.parquet"
    found = joined([(path, partial_scores(path, coded, NAMES))], coded, NAMES)
    wanted = score(run, qrels, NAMES, qrels.query_ids)
    for name in NAMES:
        assert found[name].by_query == wanted[name].by_query
        assert found[name].undefined == wanted[name].undefined
    assert set(wanted["nDCG@10"].undefined) == {
        "failed",
        "timed_out",
        "not_asked",
        "negative_query",
    }


def test_part_keeps_the_judgements_of_some_queries() -> None:
    _, qrels = random_case(2)
    coded = EncodedQrels.of(qrels)
    part = coded.part(np.array([1, 5, 6]))
    chosen = {query: qrels.grades[query] for query in part.query_ids}
    alone = EncodedQrels.of(qrels_of(chosen))
    assert part.query_ids == alone.query_ids == tuple(coded.query_ids[at] for at in (1, 5, 6))
    assert part.rows.tolist() == alone.rows.tolist()
    assert part.grades.tolist() == alone.grades.tolist()
    assert [part.vocabulary[d] for d in part.docs] == [alone.vocabulary[d] for d in alone.docs]


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    coded = EncodedQrels.of(qrels_of({"q": {"a": 1}}))
    (tmp_path / "bad").write_bytes(b"no")
    with pytest.raises(BadFile, match="not a run"):
        partial_scores(tmp_path / "bad", coded, ("nDCG@10",))
    with pytest.raises(UnknownName, match="no kernel named 'ERR@10'"):
        partial_scores(tmp_path / "bad", coded, ("ERR@10",))
