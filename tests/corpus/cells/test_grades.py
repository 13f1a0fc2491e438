"""Grades, as every reader of judgements takes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.api.data import load_qrels
from harness.corpus import beir, exchange, judgements, trec
from harness.corpus.cells import whole


@pytest.mark.parametrize(
    "found", ["2", "2.0", "2.", " 2.000 ", "+2", 2, 2.0, np.int64(2), np.float32(2)]
)
def test_a_whole_number_is_a_grade_however_it_is_written(found: object) -> None:
    assert whole(found) == 2


@pytest.mark.parametrize(
    "found",
    [
        "",
        "2.5",
        "two",
        "2,0",
        "1_0",
        "1e1",
        "\u0662",
        "nan",
        "9999999999",
        2.5,
        True,
        None,
        [2],
        np.nan,
        np.inf,
        1e30,
    ],
)
def test_all_else_is_none(found: object) -> None:
    assert whole(found) is None


def test_every_reader_takes_a_grade_that_a_tool_wrote_as_a_float(tmp_path: Path) -> None:
    def file(text: str) -> Path:
        path = tmp_path / "file"
        path.write_text(text)
        return path

    label = {"query_id": "q", "doc_id": "d", "grade": 2.0, "kind": "person", "by": "me"}
    requests = {
        "requests": [{"id": "q", "params": {"s": "q"}, "ratings": [{"_id": "d", "rating": 2.0}]}]
    }
    ratings = {"judgmentRatings": [{"query": "q", "ratings": [{"docId": "d", "rating": "2.000"}]}]}
    found = {
        "trec": trec.qrels(file("q 0 d 2.0\n")).grades,
        "beir": beir.qrels(file("q\td\t2.0\n")).grades,
        "labels": judgements.judgements(file(json.dumps(label)), "person").grades,
        "ltr": exchange.read_ltr(file("2.0 qid:q # d q\n")).qrels.grades,
        "quepid": exchange.read_quepid(file("query,docid,rating\nq,d,2.0\n")).qrels.grades,
        "rank-eval": exchange.read_rank_eval(file(json.dumps(requests))).qrels.grades,
        "opensearch": exchange.read_opensearch(file(json.dumps(ratings))).qrels.grades,
        "api": load_qrels({"q": {"d": 2.0}}).grades,  # type: ignore[arg-type]
    }
    assert {name: grades for name, grades in found.items() if grades != {"q": {"d": 2}}} == {}
