"""Flat tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from harness.core.errors import DatasetError, RunError
from harness.core.records import Qrels
from harness.corpus.trec import read_run
from harness.measures.columns import EncodedQrels
from harness.measures.kernels import Graded, code_table, grade_table
from tests.make.runs import qrels_of, random_case

Hits = list[tuple[str, str, float]]


def table(rows: Hits) -> pa.Table:
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    return pa.Table.from_pandas(frame)


def judged(qrels: Qrels) -> pa.Table:
    columns = [list(column) for column in zip(*qrels.rows(), strict=True)]
    return pa.table(columns, names=["query_id", "doc_id", "grade"])


def shape(graded: Graded) -> list[tuple[str, int, int]]:
    ids = graded.qrels.query_ids
    columns = graded.row.tolist(), graded.rank.tolist(), graded.grade.tolist()
    return sorted((ids[row], rank, grade) for row, rank, grade in zip(*columns, strict=True))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_table_is_read_as_a_trec_run_is(seed: int, shuffled: bool, tmp_path: Path) -> None:  # noqa: FBT001  a case
    """Scores tie, documents come twice, some queries have no judgements, ids are any letters."""
    rng = np.random.default_rng(seed)
    ids = ["é", "z", "10", "9", "\uffee", "\U00010000", *(f"d{at}" for at in range(30))]
    rows: Hits = [
        (f"q{q:02}", ids[d], float(rng.integers(0, 8)))
        for q in range(12)
        for d in rng.integers(0, len(ids), 25)
    ]
    if not shuffled:
        rows.sort(key=lambda row: (row[0], -row[2]))
    grades = {
        f"q{q:02}": {ids[d]: int(rng.integers(-1, 4)) for d in rng.integers(0, len(ids), 9)}
        for q in range(3, 14)
    }
    qrels = qrels_of(grades)
    file = tmp_path / "run.trec"
    file.write_text("".join(f"{q} Q0 {d} 0 {s!r} t\n" for q, d, s in rows), encoding="utf-8")
    wanted = Graded.of(read_run(file, "x"), EncodedQrels.of(qrels))
    found = grade_table(table(rows), code_table(judged(qrels)))
    assert shape(found) == shape(wanted)
    assert found.qrels.query_ids == wanted.qrels.query_ids
    assert found.lengths.tolist() == wanted.lengths.tolist()


def test_judgements_from_a_table_are_the_same() -> None:
    _, qrels = random_case(1)
    ours, wanted = code_table(judged(qrels)), EncodedQrels.of(qrels)
    assert ours.query_ids == wanted.query_ids
    for name in ("rows", "grades", "place"):
        assert getattr(ours, name).tolist() == getattr(wanted, name).tolist()


def test_what_cannot_be_read_is_named() -> None:
    coded = EncodedQrels.of(qrels_of({"q": {"a": 1}}))
    with pytest.raises(RunError, match="row 1 has the score nan"):
        grade_table(table([("q", "a", 1.0), ("q", "b", float("nan"))]), coded)
    columns = [["q", "q"], ["a", "a"]]
    names = ["query_id", "doc_id", "grade"]
    with pytest.raises(DatasetError, match="grade is double, not an integer"):
        code_table(pa.table([*columns, [1.0, 0.5]], names=names))
    with pytest.raises(DatasetError, match="a cell of the judgements is empty"):
        code_table(pa.table([*columns, [1, None]], names=names))
    with pytest.raises(DatasetError, match="a is judged twice for query q"):
        code_table(pa.table([*columns, [1, 2]], names=names))


@pytest.mark.parametrize("room", [0, 1 << 31])
def test_a_table_in_chunks_is_the_same_table(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one chunk could not hold it."""
    rng = np.random.default_rng(3)
    rows: Hits = [
        (f"q{q}", f"d{d}", float(-at)) for q in range(4) for at, d in enumerate(rng.permutation(9))
    ]
    qrels = EncodedQrels.of(qrels_of({f"q{q}": {f"d{q}": 1, "d8": 2} for q in range(4)}))
    wanted = shape(grade_table(table(rows), qrels))
    monkeypatch.setattr("harness.measures.kernels.ONE_CHUNK", room)
    pieces = pa.concat_tables([table(rows[at : at + 7]) for at in range(0, len(rows), 7)])
    assert pieces.column("doc_id").num_chunks > 1
    assert shape(grade_table(pieces, qrels)) == wanted
