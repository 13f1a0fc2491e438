"""Requests of the ranking evaluation API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.records import Qrels, Query
from harness.corpus.exchange import read_rank_eval, text_rank_eval

RATED = [{"_index": "i", "_id": "d", "rating": 1}]


def written(tmp_path: Path, *requests: object) -> Path:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"requests": list(requests), "metric": {"precision": {"k": 5}}}))
    return path


@pytest.mark.parametrize(
    "query",
    [
        {"match": {"text": "red shoes"}},
        {"match": {"text": {"query": "red shoes", "operator": "and"}}},
        {"multi_match": {"query": "red shoes", "fields": ["title^2", "text"]}},
        {"bool": {"must": [{"match": {"text": "red shoes"}}], "filter": [{"term": {"k": "v"}}]}},
        {"bool": {"should": [{"match_phrase": {f: "red shoes"}} for f in ("title", "text")]}},
        {"query_string": {"query": "red shoes"}},
    ],
)
def test_the_one_text_that_is_searched_for_is_the_query(tmp_path: Path, query: object) -> None:
    body = {"id": "JFK query", "request": {"query": query, "size": 5}, "ratings": RATED}
    found = read_rank_eval(written(tmp_path, body))
    assert [(query.query_id, query.text) for query in found.queries] == [
        ("JFK%20query", "red shoes")
    ]
    assert found.qrels.grades == {"JFK%20query": {"d": 1}}


def test_a_grade_below_0_is_written_as_0() -> None:
    sent = text_rank_eval([Query("q", "red")], Qrels({"q": {"d": -1, "e": 2}}), "i")
    (request,) = json.loads(sent)["requests"]
    assert {one["_id"]: one["rating"] for one in request["ratings"]} == {"d": 0, "e": 2}


def test_a_template_with_several_parameters_needs_a_key(tmp_path: Path) -> None:
    params = {"query_string": "amsterdam", "field": "text"}
    path = written(tmp_path, {"id": "q", "template_id": "t", "params": params, "ratings": RATED})
    with pytest.raises(BadFile, match=r"requests\[0\]: its text is one of .* --text KEY"):
        read_rank_eval(path)
    assert read_rank_eval(path, "query_string").queries[0].text == "amsterdam"
    with pytest.raises(BadFile, match=r"requests\[0\]: no text is searched for"):
        read_rank_eval(path, "other")


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"request": {}, "ratings": []}, r"requests\[0\]: has no id"),
        ({"id": "q", "params": {"q": "a"}}, r"requests\[0\]: has no list of ratings"),
        ({"id": "q", "params": [], "request": 3, "ratings": RATED}, "no text is searched for"),
        (
            {"id": "q", "params": {"q": "a"}, "ratings": [*RATED, {"_id": "e", "rating": "x"}]},
            r"requests\[0\]\.ratings\[1\]: the grade 'x' is not an integer",
        ),
        (
            {"id": "q", "params": {"q": "a"}, "ratings": [{"rating": 1}]},
            r"ratings\[0\]: the document id '' is empty",
        ),
        ("q", "no list of objects 'requests'"),
    ],
)
def test_a_broken_request_names_its_place(tmp_path: Path, request_: object, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        read_rank_eval(written(tmp_path, request_))


@pytest.mark.parametrize(
    ("content", "says"),
    [("{", "r.json:1: it is not JSON"), ("[]", "no list of objects 'requests'"), (None, "missing")],
)
def test_what_is_no_request_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadFile, match=says):
        read_rank_eval(path)
