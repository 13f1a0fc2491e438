"""Runs and judgements that write the same ids in two ways."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from harness import Inference, compare, score
from harness.core.errors import DatasetError
from harness.corpus.cells import written_otherwise

SURE = Inference(confidence=0.95, resamples=1000, seed=1)
NAMES = ["query_id", "q0", "doc_id", "rank", "score", "tag"]


@pytest.fixture
def lines() -> str:
    return "".join(f"q{n} Q0 {n:05d} 1 9.0 x\n" for n in (*range(1, 31), 12345))


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    path = tmp_path / "z.qrels"
    path.write_text("".join(f"q{n} 0 {n:05d} 1\n" for n in (*range(1, 31), 12345)))
    return path


def test_ids_that_pandas_read_as_numbers_are_refused(lines: str, qrels: Path) -> None:
    frame = pd.read_csv(io.StringIO(lines), sep=" ", names=NAMES)
    assert score(pd.read_csv(io.StringIO(lines), sep=" ", names=NAMES, dtype=str).astype(
        {"score": float}), qrels, ["nDCG@10"]).scores["nDCG@10"].mean == 1.0  # fmt: skip
    says = r"the run has the document '1', and the judgements have '00001'\. Read ids as text"
    with pytest.raises(DatasetError, match=says):
        score(frame, qrels, ["nDCG@10"])
    with pytest.raises(DatasetError, match=says):
        compare(frame, frame, qrels, "nDCG@10", sure=SURE)


@pytest.mark.parametrize(
    ("here", "there", "pair"),
    [
        ({"1", "12345"}, {"00001", "12345"}, ("1", "00001")),
        ({"00001", "12345"}, {"1", "12345"}, ("00001", "1")),
        ({"D1"}, {"d01"}, ("D1", "d01")),
        ({"1.0"}, {"1"}, ("1.0", "1")),
        ({"1", "2"}, {"3"}, None),
        ({"01", "1"}, {"01", "1", "2"}, None),
        ({"1"}, {"1", "01"}, None),
        ({"D1", "x"}, {"d1", "x"}, None),
        (set(), {"1"}, None),
    ],
)
def test_only_ids_that_fit_nothing_are_written_otherwise(
    here: set[str], there: set[str], pair: tuple[str, str] | None
) -> None:
    assert written_otherwise(here, there) == pair


def test_query_ids_are_held_too() -> None:
    judged = {"001": {"d": 1}, "002": {"e": 1}}
    with pytest.raises(
        DatasetError, match="the run has the query '1', and the judgements have '001'"
    ):
        score({"1": {"d": 1.0}, "2": {"e": 1.0}}, judged, ["nDCG@10"])
