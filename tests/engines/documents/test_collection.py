"""A collection from end to end: answers, their JSON, filters, context and expansion."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import HarnessError, IndexNotReady, ModelNotReady
from harness_engines.kept import index
from harness_engines.kept.kit import DOCUMENTS
from harness_engines.stacks.documents import collection, ranking
from harness_engines.stacks.documents.collection import DocumentCollection
from harness_engines.stacks.documents.ranking import Leg, MissingModel, Pipeline, by_rank
from tests.engines.documents.small import NOON, built, settings

OF_AN_ANSWER = (
    *("query", "collection", "results_count", "search_time_ms", "tier", "stages_used", "results"),
)
OF_A_RESULT = ("text", "score", "citation", "citation_short", "source", "context")
OF_A_SOURCE = (
    *("document", "document_path", "document_id", "chunk_id", "chunk_index", "page", "page_end"),
    *("paragraph_start", "paragraph_end", "line_start", "line_end", "char_start", "char_end"),
    *("extraction_method", "ocr_confidence", "chunk_created_at", "chunk_embedded_at"),
    "document_ingested_at",
)


def check(written: dict[str, Any]) -> None:
    """Check that an answer is the JSON of section 7 and nothing else."""
    assert sorted(written) == sorted(OF_AN_ANSWER)
    assert written["results_count"] == len(written["results"])
    for one in written["results"]:
        assert sorted(one) == sorted(OF_A_RESULT)
        assert sorted(one["source"]) == sorted(OF_A_SOURCE)
        assert sorted(one["context"]) == ["after", "before"]
        assert 0 <= one["score"] <= 1


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def pro(cache: Path) -> Iterator[DocumentCollection]:
    with built(cache / "pro", settings(), cache) as opened:
        yield opened


def test_the_answer_is_the_json_of_section_7_and_nothing_else(pro: DocumentCollection) -> None:
    for query in ("customer retention", "water", "zzz", ""):
        check(json.loads(json.dumps(pro.to_json(pro.search(query, 10)), allow_nan=False)))
    gone = MissingModel("E6", "not installed")
    left = replace(pro.pipeline.models, sparse=None, missing=(gone,))
    without = replace(pro, pipeline=replace(pro.pipeline, models=left))
    answer = dict(DOCUMENTS.answer(without, {"query": "water", "top_k": 3}))
    assert answer.pop("missing") == [gone._asdict()]
    check(answer)


def test_a_result_says_where_it_stands_and_what_stands_around_it(pro: DocumentCollection) -> None:
    told = pro.to_json(pro.search("customer retention per cent", 3))
    first = told["results"][0]
    assert told["stages_used"] == ["bm25", "semantic", "colbert"]
    assert told["tier"] == "pro"
    assert first["citation"] == "q3.pdf, p. 1, para. 1-2"
    assert first["citation_short"] == "q3, p. 1"
    assert first["source"]["document_path"] == "/originals/q3.pdf"
    assert first["context"]["before"] == ""
    assert first["context"]["after"].startswith("Churn fell")
    assert first["source"]["chunk_embedded_at"] == NOON.isoformat()
    rows = pro.search("churn after quarterly reviews", 1).rows
    related = pro.graph.expand(rows, 3)
    assert pro.library.chunks[related[0].row].id == "reports/q3.pdf#000000"
    assert "ocean tide trust" in related[0].shared
    assert not set(rows) & {one.row for one in related}
    assert pro.graph.expand(rows, 0) == []


def test_a_filter_leaves_one_document_and_an_unknown_one_none(pro: DocumentCollection) -> None:
    found = pro.search("the water, retention and the customers", 10, "reports/q3.pdf").rows
    of = [pro.library.chunks[row].source.document_id for row in found]
    assert of == ["reports/q3.pdf"] * 2
    assert pro.search("water", 10, "gone").rows == ()
    assert len(pro.search("water of the sea", 1).rows) == 1
    with pytest.raises(HarnessError, match="one result at least"):
        pro.search("water", 0)
    ticks = iter([1_000_000, 88_400_000])
    timed = replace(pro, clock_ns=lambda: next(ticks))
    assert timed.search("water", 1).search_time_ms == 87


def test_without_models_nothing_was_embedded(tmp_path: Path) -> None:
    given = settings(tier="free", embedder="", sparse="")
    with built(tmp_path / "words", given, tmp_path) as opened:
        answer = opened.to_json(opened.search("water of the sea", 3))
    assert answer["stages_used"] == ["bm25"]
    assert answer["results"][0]["source"]["chunk_embedded_at"] is None


QUERY = "water of the sea, customers and the words of a board"


def pipeline(pro: DocumentCollection, *, late: bool, **changed: object) -> Pipeline:
    """Rank the same index otherwise."""
    whole = pro.pipeline.models
    return replace(
        pro.pipeline,
        settings=settings(**changed),
        models=whole if late else replace(whole, late=None),
    )


def by_hand(
    pro: DocumentCollection, rows: list[int]
) -> tuple[list[float], list[float], list[float]]:
    """Cosines, dot products and MaxSim of some chunks, from what the models say of their texts."""
    found = pro.pipeline.models
    assert found.dense
    assert found.sparse
    assert found.late
    texts = [ranking.read_by_models(pro.library.chunks[row].text) for row in rows]
    query, chunks = found.dense.embedder.embed([QUERY])[0], found.dense.embedder.embed(texts)
    cosines = (chunks @ query).tolist()
    asked = dict(zip(*(part.tolist() for part in found.sparse.encoder.encode(QUERY)), strict=True))
    dots, maxsims = [], []
    for text in texts:
        terms, weights = found.sparse.encoder.encode(text)
        held = zip(terms.tolist(), weights.tolist(), strict=True)
        dots.append(sum(asked.get(term, 0.0) * weight for term, weight in held))
        tokens = [
            ranking.projected(
                found.late.embedder.read([one]).tokens[0].astype(np.float16), found.late.projection
            )
            for one in (QUERY, text)
        ]
        likeness = tokens[0].astype(np.float64) @ tokens[1].astype(np.float64).T
        maxsims.append(float(likeness.max(axis=1).mean()))
    return cosines, dots, maxsims


def test_as_specified_the_score_is_the_blend_of_the_formula_and_maxsim(
    pro: DocumentCollection,
) -> None:
    ranked = pro.pipeline.rank(QUERY)
    rows = ranked.rows.tolist()
    assert len(rows) > 4
    cosines, dots, maxsims = by_hand(pro, rows)
    base = [
        (1 / (60 + 1 / cosine) if cosine > 0 else 0) + (0.8 / (60 + 1 / dot) if dot > 0 else 0)
        for cosine, dot in zip(cosines, dots, strict=True)
    ]
    expected = [0.4 * one + 0.6 * late for one, late in zip(base, maxsims, strict=True)]
    assert ranked.scores.tolist() == pytest.approx(expected, abs=2e-3)
    assert ranked.scores.tolist() == sorted(ranked.scores.tolist(), reverse=True)
    free = pipeline(pro, late=False).rank(QUERY)
    assert sorted(free.scores.tolist()) == pytest.approx(sorted(base), abs=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_recall_counts_in_a_fusion_by_rank_as_it_is_weighed(
    pro: DocumentCollection, weight: float
) -> None:
    rows, found = pro.pipeline.recall.search(QUERY, 500), pro.pipeline.models
    assert found.dense
    assert found.sparse
    legs = [Leg(found.dense.cosines(QUERY, rows), 1.0), Leg(found.sparse.dots(QUERY, rows), 0.8)]
    recalled = [Leg(-np.arange(len(rows), dtype=np.float64), weight)] if weight else []
    ranked = pipeline(pro, late=False, fusion="rank", recall_weight=weight).rank(QUERY)
    expected = dict(zip(rows.tolist(), by_rank([*legs, *recalled], len(rows)), strict=True))
    assert dict(zip(ranked.rows.tolist(), ranked.scores, strict=True)) == expected


def test_the_stages_used_are_those_that_ran(pro: DocumentCollection) -> None:
    assert pro.pipeline.rank(QUERY).stages_used == ("bm25", "semantic", "colbert")
    assert pipeline(pro, late=False).rank(QUERY).stages_used == ("bm25", "semantic")
    assert pro.pipeline.rank("zzz the a").stages_used == ("bm25",)
    alone = replace(pro.pipeline, models=ranking.Models(None, None, None, ()))
    ranked = alone.rank(QUERY)
    assert ranked.stages_used == ("bm25",)
    assert ranked.rows.tolist() == alone.recall.search(QUERY, 500).tolist()
    assert (np.diff(ranked.scores) < 0).all()


def test_stage_2_keeps_100_of_the_500(
    pro: DocumentCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (pro.pipeline, pipeline(pro, late=False)):
        rows = one.rank("very same words copy").rows[:2].tolist()
        ids = [pro.library.chunks[row].id for row in rows]
        assert ids == ["twin-a#000000", "twin-b#000000"]
    assert set(pro.pipeline.rank(QUERY).rows) <= set(pro.pipeline.recall.search(QUERY, 500))
    assert (ranking.RECALLED, ranking.RANKED) == (500, 100)
    monkeypatch.setattr(ranking, "RECALLED", 6)
    monkeypatch.setattr(ranking, "RANKED", 3)
    ranked = pro.pipeline.rank(QUERY)
    assert len(ranked.rows) == 3
    assert set(ranked.rows) <= set(pro.pipeline.recall.search(QUERY, 6))


@pytest.mark.parametrize(
    ("gone", "missing", "stages_used"),
    [
        (["embedder_of"], ["E1", "E12"], ("bm25", "semantic")),
        (["encoder_of"], ["E6"], ("bm25", "semantic", "colbert")),
        (["embedder_of", "encoder_of"], ["E1", "E12", "E6"], ("bm25",)),
    ],
)
def test_a_model_that_is_missing_is_named_and_its_stages_are_left_out(  # noqa: PLR0917  cases
    gone: list[str],
    missing: list[str],
    stages_used: tuple[str, ...],
    cache: Path,
    pro: DocumentCollection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(*_: object) -> None:
        raise ModelNotReady("the package is not installed")

    for name in gone:
        monkeypatch.setattr(ranking, name, absent)
    with collection.opened(cache / "pro", settings(), "Small") as opened:
        left = opened.pipeline.models
    assert sorted(one.part for one in left.missing) == missing
    assert all(one.reason == "MODEL_NOT_READY" and one.why for one in left.missing)
    assert replace(pro.pipeline, models=left).rank(QUERY).stages_used == stages_used


@pytest.mark.parametrize("name", [index.FILE, ranking.TOKENS])
def test_a_broken_file_of_an_index_is_not_ready(name: str, cache: Path, tmp_path: Path) -> None:
    for path in (cache / "pro").iterdir():
        if path.is_file():
            content = path.read_bytes()
            is_broken = path.name.endswith(name)
            (tmp_path / path.name).write_bytes(content[:40] if is_broken else content)
    with (
        pytest.raises(IndexNotReady, match="harness stage index"),
        collection.opened(tmp_path, settings(), "broken"),
    ):
        pass
