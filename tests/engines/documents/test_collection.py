"""A collection from end to end: answers, their JSON, filters, context and expansion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from engines.stacks.documents import collection
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.models import Missing
from engines.stacks.documents.ranking import Response
from tests.engines.documents.small import NOON, SOURCES, built, read_folder, settings

INTEGER, TEXT, TIME = {"type": "integer"}, {"type": "string"}, {"type": "string", "minLength": 20}


def closed(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  a schema
    """Describe an object that has these fields and no other."""
    return {
        "type": "object",
        "properties": fields,
        "required": sorted(fields),
        "additionalProperties": False,
    }


SECTION_7 = closed(
    query=TEXT,
    collection=TEXT,
    results_count={"type": "integer", "minimum": 0},
    search_time_ms={"type": "integer", "minimum": 0},
    tier={"enum": ["free", "pro"]},
    stages_used={"type": "array", "items": {"enum": ["bm25", "semantic", "colbert"]}},
    results={
        "type": "array",
        "items": closed(
            text={"type": "string", "minLength": 1},
            score={"type": "number", "minimum": 0, "maximum": 1},
            citation=TEXT,
            citation_short=TEXT,
            source=closed(
                document=TEXT,
                document_path=TEXT,
                document_id=TEXT,
                chunk_id=TEXT,
                chunk_index={"type": "integer", "minimum": 0},
                page={"type": ["integer", "null"], "minimum": 1},
                page_end={"type": ["integer", "null"], "minimum": 1},
                paragraph_start={"type": "integer", "minimum": 1},
                paragraph_end={"type": "integer", "minimum": 1},
                line_start={"type": "integer", "minimum": 1},
                line_end={"type": "integer", "minimum": 1},
                char_start={"type": "integer", "minimum": 0},
                char_end={"type": "integer", "minimum": 1},
                extraction_method={"enum": ["Native"]},
                ocr_confidence={"type": "null"},
                chunk_created_at=TIME,
                chunk_embedded_at={"type": ["string", "null"]},
                document_ingested_at=TIME,
            ),
            context=closed(before=TEXT, after=TEXT),
        ),
    },
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def pro(cache: Path) -> Iterator[Collection]:
    with built(cache / "pro", settings(), cache) as opened:
        yield opened


def test_the_answer_is_the_json_of_section_7_and_nothing_else(pro: Collection) -> None:
    for query in ("customer retention", "water", "zzz", ""):
        written = json.loads(json.dumps(pro.search(query, 10).to_json(), allow_nan=False))
        jsonschema.validate(written, SECTION_7)
        assert written["results_count"] == len(written["results"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "more": 1}, SECTION_7)


def test_a_result_says_where_it_stands_and_what_stands_around_it(pro: Collection) -> None:
    answer = pro.search("customer retention per cent", 3).to_json()
    first = answer["results"][0]
    assert answer["stages_used"] == ["bm25", "semantic", "colbert"]
    assert answer["tier"] == "pro"
    assert first["citation"] == "q3.pdf, p. 1, para. 1-2"
    assert first["citation_short"] == "q3, p. 1"
    assert first["source"]["document_path"] == "/originals/q3.pdf"
    assert first["context"]["before"] == ""
    assert first["context"]["after"].startswith("Churn fell")
    assert first["source"]["chunk_embedded_at"] == NOON.isoformat()


def test_a_filter_leaves_one_document_and_an_unknown_one_none(pro: Collection) -> None:
    found = pro.search("the water, retention and the customers", 10, "reports/q3.pdf").results
    assert {result.provenance.document_id for result in found} == {"reports/q3.pdf"}
    assert len(found) == 2
    assert pro.search("water", 10, "gone").results == ()


def test_top_k_is_one_at_least(pro: Collection) -> None:
    assert len(pro.search("water of the sea", 1).results) == 1
    with pytest.raises(ValueError, match="one result at least"):
        pro.search("water", 0)


def test_time_is_what_the_clock_says(pro: Collection) -> None:
    ticks = iter([1_000_000, 88_400_000])
    timed = replace(pro, clock_ns=lambda: next(ticks))
    assert timed.search("water", 1).search_time_ms == 87


def test_what_is_missing_is_said_beside_the_json(pro: Collection) -> None:
    gone = Missing("E6", "not installed")
    left = replace(pro.pipeline.models, sparse=None, missing=(gone,))
    without = replace(pro, pipeline=replace(pro.pipeline, models=left))
    answer: Response = without.search("water", 3)
    assert answer.missing == (gone,)
    assert answer.missing[0].reason == "MODEL_NOT_READY"
    jsonschema.validate(answer.to_json(), SECTION_7)


def test_expansion_shows_what_is_related_and_not_found(pro: Collection) -> None:
    answer = pro.search("churn after quarterly reviews", 1)
    related = pro.expand(answer, 3)
    ids = [pro.library.chunks[one.row].provenance.chunk_id for one in related]
    assert ids[0] == "reports/q3.pdf#000000"
    assert "ocean tide trust" in related[0].shared
    assert not {result.provenance.chunk_id for result in answer.results} & set(ids)
    assert pro.expand(answer, 0) == []
    for most in (-1, 101):
        with pytest.raises(ValueError, match="expansions"):
            pro.expand(answer, most)


def test_recall_filters_before_it_cuts(cache: Path) -> None:
    with built(cache / "filtered", settings(tier="free"), cache) as opened:
        found = opened.search("customers of the board, water, sea and salt", 50).results
        ids = {result.provenance.document_id for result in found}
        assert {"reports/q3.pdf", "tides", "bread"} <= ids
        allowed = opened.allowed("reports/q3.pdf")
        rows = opened.pipeline.recall.search("the board, water, sea, words", 1, allowed)
        assert [opened.library.chunks[row].provenance.document_id for row in rows] == [
            "reports/q3.pdf"
        ]


def test_without_models_nothing_was_embedded(tmp_path: Path) -> None:
    given = settings(tier="free", embedder="", sparse="")
    with built(tmp_path / "words", given, tmp_path) as opened:
        answer = opened.search("water of the sea", 3)
    assert answer.stages_used == ("bm25",)
    assert answer.results[0].to_json()["source"]["chunk_embedded_at"] is None
    jsonschema.validate(answer.to_json(), SECTION_7)


def test_a_folder_of_files_becomes_a_collection(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "tides.md").write_bytes("# Tides\r\n\r\nThe moon pulls the s\u00e9a.\r\n".encode())
    given = settings(tier="free", embedder="", sparse="")
    index = tmp_path / "index"
    index.mkdir()
    collection.build(read_folder(docs)[0], index, given, tmp_path / "cache", lambda: NOON)
    with collection.opened(index, given, "Docs") as opened:
        (found,) = opened.search("moon", 5).results
    place = found.provenance
    original = (docs / "tides.md").read_bytes().decode()
    assert original[place.char_start : place.char_end] == found.text
    assert place.cite() == "tides.md, para. 1-2, l. 1-3"
    assert len(SOURCES) > 1
