"""A collection from end to end: answers, their JSON, filters, context and expansion."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from pydantic import ValidationError

from benchmarks import documents_stages as stages
from benchmarks.documents_stages import BUDGET, Budget
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.gate import Verdict
from harness.core.scores import Estimate
from harness_engines.kept import index
from harness_engines.stacks.documents import collection, models, ranking
from harness_engines.stacks.documents.collection import DocumentCollection
from harness_engines.stacks.documents.models import Loaded, MissingModel
from harness_engines.stacks.documents.ranking import Pipeline, Response
from harness_engines.stacks.documents.texts import Cutting
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
def pro(cache: Path) -> Iterator[DocumentCollection]:
    with built(cache / "pro", settings(), cache) as opened:
        yield opened


def test_the_answer_is_the_json_of_section_7_and_nothing_else(pro: DocumentCollection) -> None:
    for query in ("customer retention", "water", "zzz", ""):
        written = json.loads(json.dumps(pro.search(query, 10).to_json(), allow_nan=False))
        jsonschema.validate(written, SECTION_7)
        assert written["results_count"] == len(written["results"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "more": 1}, SECTION_7)
    gone = MissingModel("E6", "not installed")
    left = replace(pro.pipeline.models, sparse=None, missing=(gone,))
    without = replace(pro, pipeline=replace(pro.pipeline, models=left))
    answer: Response = without.search("water", 3)
    assert answer.missing == (gone,)
    assert answer.missing[0].reason == "MODEL_NOT_READY"
    jsonschema.validate(answer.to_json(), SECTION_7)


def test_a_result_says_where_it_stands_and_what_stands_around_it(pro: DocumentCollection) -> None:
    told = pro.search("customer retention per cent", 3).to_json()
    first = told["results"][0]
    assert told["stages_used"] == ["bm25", "semantic", "colbert"]
    assert told["tier"] == "pro"
    assert first["citation"] == "q3.pdf, p. 1, para. 1-2"
    assert first["citation_short"] == "q3, p. 1"
    assert first["source"]["document_path"] == "/originals/q3.pdf"
    assert first["context"]["before"] == ""
    assert first["context"]["after"].startswith("Churn fell")
    assert first["source"]["chunk_embedded_at"] == NOON.isoformat()
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


def test_a_filter_leaves_one_document_and_an_unknown_one_none(pro: DocumentCollection) -> None:
    found = pro.search("the water, retention and the customers", 10, "reports/q3.pdf").results
    assert {result.provenance.document_id for result in found} == {"reports/q3.pdf"}
    assert len(found) == 2
    assert pro.search("water", 10, "gone").results == ()
    assert len(pro.search("water of the sea", 1).results) == 1
    with pytest.raises(ValueError, match="one result at least"):
        pro.search("water", 0)
    ticks = iter([1_000_000, 88_400_000])
    timed = replace(pro, clock_ns=lambda: next(ticks))
    assert timed.search("water", 1).search_time_ms == 87


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
    texts = [models.read_by_models(pro.library.chunks[row].text) for row in rows]
    query, chunks = found.dense.embedder.embed([QUERY])[0], found.dense.embedder.embed(texts)
    cosines = (chunks @ query).tolist()
    asked = dict(zip(*(part.tolist() for part in found.sparse.encoder.encode(QUERY)), strict=True))
    dots, maxsims = [], []
    for text in texts:
        terms, weights = found.sparse.encoder.encode(text)
        held = zip(terms.tolist(), weights.tolist(), strict=True)
        dots.append(sum(asked.get(term, 0.0) * weight for term, weight in held))
        tokens = [
            found.late.projection(found.dense.embedder.read([one]).tokens[0].astype(np.float16))
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


def test_by_rank_the_score_is_the_share_of_the_largest_sum(pro: DocumentCollection) -> None:
    ranked = pipeline(pro, late=False, fusion="rank", recall_weight=1.0).rank(QUERY)
    rows = ranked.rows.tolist()
    recalled = pro.pipeline.recall.search(QUERY, 500).tolist()
    cosines, dots, _ = by_hand(pro, rows)
    for row, score, cosine, dot in zip(rows, ranked.scores, cosines, dots, strict=True):
        places = (
            1 + sum(other > cosine + 1e-6 for other in cosines),
            1 + sum(other > dot + 1e-6 for other in dots),
            1 + recalled.index(row),
        )
        parts = zip((1.0, 0.8, 1.0), places, strict=True)
        expected = sum(weight / (60 + place) for weight, place in parts) / (2.8 / 61)
        assert score == pytest.approx(expected, abs=1e-9)


def test_the_stages_used_are_those_that_ran(pro: DocumentCollection) -> None:
    assert pro.pipeline.rank(QUERY).stages_used == ("bm25", "semantic", "colbert")
    assert pipeline(pro, late=False).rank(QUERY).stages_used == ("bm25", "semantic")
    assert pro.pipeline.rank("zzz the a").stages_used == ("bm25",)
    alone = replace(pro.pipeline, models=models.Models(None, None, None, ()))
    ranked = alone.rank(QUERY)
    assert ranked.stages_used == ("bm25",)
    assert ranked.rows.tolist() == alone.recall.search(QUERY, 500).tolist()
    assert (np.diff(ranked.scores) < 0).all()


def test_stage_2_keeps_100_of_the_500(
    pro: DocumentCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (pro.pipeline, pipeline(pro, late=False)):
        rows = one.rank("very same words copy").rows[:2].tolist()
        ids = [pro.library.chunks[row].provenance.chunk_id for row in rows]
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
        monkeypatch.setattr(models, name, absent)
    with collection.opened(cache / "pro", settings(), "Small") as opened:
        left = opened.pipeline.models
    assert sorted(one.part for one in left.missing) == missing
    assert all(one.reason == "MODEL_NOT_READY" and one.why for one in left.missing)
    assert replace(pro.pipeline, models=left).rank(QUERY).stages_used == stages_used


@pytest.mark.parametrize("name", [index.FILE, models.TOKENS, models.PROJECTION])
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


def test_what_a_model_has_not_read_to_the_end_is_missing(
    cache: Path, pro: DocumentCollection
) -> None:
    with closing(sqlite3.connect(cache / "pro" / index.FILE)) as db:
        found = Loaded.of(settings(), cache).opened(db, ["another text"], cache / "pro")
    assert {one.why for one in found.missing} == {models.UNFINISHED}
    assert [one.part for one in found.missing] == ["E1", "E12", "E6"]
    assert replace(pro.pipeline, models=found).rank(QUERY).stages_used == ("bm25",)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"chunk_characters": 100, "chunk_overlap": 50}, "chunk_overlap"),
        ({"embedder": ""}, "embedder"),
        ({"recall_weight": 1.0}, "recall_weight"),
        ({"tier": "gold"}, "tier"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(**changed)


SMALL = Budget(40, 95.0, 0.95, 200, 7, {"1 recall": 5.0})
CUTTING = Cutting(60, 10)


def beir(folder: Path, texts: list[str]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    ids = range(len(texts))
    rows = [json.dumps({"_id": f"d{n}", "title": "", "text": texts[n]}) for n in ids]
    asked = [json.dumps({"_id": f"q{n}", "text": f"{folder.name} question {n}"}) for n in ids]
    (folder / "corpus.jsonl").write_text("\n".join(rows))
    (folder / "queries.jsonl").write_text("\n".join(asked))
    judged = "".join(f"q{n}\td{n}\t1\n" for n in ids)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def test_a_stage_lasts_from_the_one_before_to_its_own_end(pro: DocumentCollection) -> None:
    ticks = count()
    assert stages.one_search(pro, "water of the sea", lambda: next(ticks)) == {
        "1 recall": 1,
        "2 rank: E1": 1,
        "2 rank: E6": 1,
        "2 rank": 3,
        "3 rerank": 1,
        "free, answer and citations": 1,
        "pro, answer and citations": 1,
    }
    watched = stages.watched(pro.pipeline, stages.Watch(lambda: 0)).rank("water of the sea")
    plain = pro.pipeline.rank("water of the sea")
    assert watched.rows.tolist() == plain.rows.tolist()
    assert watched.scores.tolist() == plain.scores.tolist()
    gone = pro.pipeline.models.__class__(None, None, None, ())
    lame = pro.pipeline.__class__(pro.pipeline.settings, pro.pipeline.recall, gone)
    with pytest.raises(SystemExit, match="models are missing"):
        stages.watched(lame, stages.Watch(lambda: 0))


def test_the_first_round_is_thrown_away(
    pro: DocumentCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()
    found = stages.timed(pro, ["water", "zzz", "sea"], 2, lambda: next(ticks), 1)
    assert {times.shape for times in found.values()} == {(2, 2)}
    assert stages.timed(pro, ["zzz"], 2, lambda: next(ticks), 1) == {}
    calls = count()
    monkeypatch.setattr(stages, "one_search", lambda *_: {"1 recall": next(calls)})
    rounds = stages.timed(pro, ["a", "b"], 2, lambda: 0, 1)["1 recall"]
    assert sorted(rounds.reshape(-1).tolist()) == [2, 3, 4, 5]


def test_chunks_come_from_documents_that_differ_until_there_are_enough(tmp_path: Path) -> None:
    one = beir(tmp_path / "one", ["Honey bees.", "The sea. " * 20, "Honey bees."])
    other = beir(tmp_path / "other", ["Honey bees.", "A hive.", "A board."])
    found = [source.document_id for source in stages.enough([one, other], CUTTING, 100)]
    names = [name.rpartition("-")[2] for name in found]
    assert names == ["one/d0", "one/d1", "other/d1", "other/d2"]
    assert len(list(stages.enough([one, other], CUTTING, 2))) == 2
    assert len(list(stages.enough([one], CUTTING, 1))) == 1


def test_questions_are_drawn_from_every_collection_alike(tmp_path: Path) -> None:
    folders = [beir(tmp_path / name, ["text"] * 9) for name in ("one", "other")]
    drawn = stages.drawn(folders, 6, 3)
    assert [text.split()[0] for text in drawn] == ["one"] * 3 + ["other"] * 3
    assert len(set(drawn)) == 6
    assert drawn == stages.drawn(folders, 6, 3)
    assert drawn != stages.drawn(folders, 6, 4)


@pytest.mark.parametrize(
    ("low", "high", "chunks", "verdict"),
    [
        (3.0, 4.9, 40, Verdict.PASS),
        (5.1, 9.0, 40, Verdict.FAIL),
        (4.9, 5.1, 40, Verdict.INCONCLUSIVE),
        (3.0, 4.0, 39, Verdict.INCONCLUSIVE),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, chunks: int, verdict: Verdict) -> None:
    estimate = Estimate((low + high) / 2, low, high, 9)
    assert stages.verdict_of(estimate, 5.0, chunks, SMALL) is verdict


def test_the_table_shows_each_stage_beside_its_budget(tmp_path: Path) -> None:
    times = np.full((80, 2), 2_000_000)
    texts = [f"text {n // 2}" for n in range(40)]
    rows = list(stages.table({"1 recall": times, "other": times}, texts, SMALL, "a clock"))
    assert "40 chunks, 20 different texts; 80 questions" in rows[0]
    assert "2 rounds; a clock" in rows[1]
    assert rows[-3] == "| 1 recall | 2.00 [2.00, 2.00] | 2.00 [2.00, 2.00] | 5 | PASS |"
    assert rows[-2] == "| other | 2.00 [2.00, 2.00] | 2.00 [2.00, 2.00] |  |  |"
    given = Budget.read(BUDGET)
    assert given.chunks == 10_000
    assert list(given.budget_ms.values()) == [5.0, 80.0, 100.0, 100.0, 200.0]
    (tmp_path / "less.toml").write_text("chunks = 3")
    with pytest.raises(TypeError, match="budget_ms"):
        Budget.read(tmp_path / "less.toml")
