"""A collection as frames of pandas, both ways."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from harness import load_collection, save_collection, score
from harness.core.errors import DatasetError

DOCUMENTS = pd.DataFrame({"doc_id": ["d1", "d2"], "title": ["T", ""], "text": ["one\ntwo", "ö"]})
QUERIES = pd.DataFrame({"query_id": ["q1", "q2"], "text": ["=1+1", "two"]})
QRELS = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["d1", "d2"], "relevance": [2, 1]})


def test_frames_come_back(tmp_path: Path) -> None:
    folder = save_collection(tmp_path / "mine", DOCUMENTS, QUERIES, QRELS)
    collection = load_collection(folder)
    pd.testing.assert_frame_equal(collection.documents, DOCUMENTS)
    pd.testing.assert_frame_equal(collection.queries, QUERIES)
    pd.testing.assert_frame_equal(collection.qrels, QRELS)
    assert (
        score({"q1": {"d1": 1.0}, "q2": {}}, collection.qrels, ["RR"]).frame()["RR"].mean() == 0.5
    )


def test_a_title_may_be_left_out_and_ids_may_be_numbers(tmp_path: Path) -> None:
    numbered = DOCUMENTS.assign(doc_id=[1, 2]).drop(columns="title")
    judged = QRELS.assign(doc_id=[1, 2])
    collection = load_collection(save_collection(tmp_path / "mine", numbered, QUERIES, judged))
    assert collection.documents["doc_id"].tolist() == ["1", "2"]
    assert collection.documents["title"].tolist() == ["", ""]


@pytest.mark.parametrize(
    ("documents", "queries", "says"),
    [
        (DOCUMENTS.drop(columns="text"), QUERIES, "documents: .* lacks text. Rename it"),
        (DOCUMENTS.assign(doc_id=["d1", "d1"]), QUERIES, "documents row 1: the id 'd1' comes twi"),
        (DOCUMENTS.assign(doc_id=["d1", "d 2"]), QUERIES, "documents row 1: the id 'd 2' is not"),
        (DOCUMENTS.assign(doc_id=[1.5, 2.5]), QUERIES, "documents row 0: the id 1.5 is not"),
        (DOCUMENTS, QUERIES.assign(text=["a", 2.5]), r"queries row 1: .* is not a text; fill it"),
    ],
)
def test_a_frame_that_is_wrong_names_its_row(
    tmp_path: Path, documents: pd.DataFrame, queries: pd.DataFrame, says: str
) -> None:
    with pytest.raises(DatasetError, match=says):
        save_collection(tmp_path / "mine", documents, queries, QRELS)
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_is_there_is_kept(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is there already; name a new folder"):
        save_collection(tmp_path, DOCUMENTS, QUERIES, QRELS)


def test_numbers_for_ids_with_zeros_are_refused(tmp_path: Path) -> None:
    documents = pd.DataFrame({"doc_id": [12], "text": ["shoes"]})
    queries = pd.DataFrame({"query_id": ["q"], "text": ["shoes"]})
    with pytest.raises(DatasetError, match="the document '00012' is '12' in documents"):
        save_collection(tmp_path / "shop", documents, queries, {"q": {"00012": 1}})  # type: ignore[arg-type]
