"""Judgement lists of OpenSearch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.corpus.exchange import read_opensearch


def written(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "j.json"
    path.write_text(json.dumps({"name": "n", "judgmentRatings": list(rows)}))
    return path


def test_a_list_is_read(tmp_path: Path) -> None:
    rated = [{"docId": "B0", "rating": "3.000"}, {"docId": "B1", "rating": 0}]
    found = read_opensearch(written(tmp_path, {"query": "red dress", "ratings": rated}))
    assert found.qrels.grades == {"red%20dress": {"B0": 3, "B1": 0}}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"ratings": []}, r"judgmentRatings\[0\]: the query has no text"),
        ({"query": "a", "ratings": {}}, r"judgmentRatings\[0\]: has no list of ratings"),
        (
            {"query": "a", "ratings": [{"docId": "d", "rating": "0.25"}]},
            r"judgmentRatings\[0\]\.ratings\[0\]: the grade '0\.25' is not an integer",
        ),
    ],
)
def test_a_broken_list_names_its_place(tmp_path: Path, row: object, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        read_opensearch(written(tmp_path, row))
