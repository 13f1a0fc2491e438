"""The stages: what each does to the order, recomputed beside it, and what happens without one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from engines.kept import index
from engines.stacks.documents import collection, models, ranking
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.models import Loaded
from engines.stacks.documents.ranking import Pipeline
from harness.core.errors import IndexNotReady, ModelNotReady
from tests.engines.documents.small import built, settings

QUERY = "water of the sea, customers and the words of a board"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def pro(cache: Path) -> Iterator[Collection]:
    with built(cache / "pro", settings(), cache) as opened:
        yield opened


def pipeline(pro: Collection, *, late: bool, **changed: object) -> Pipeline:
    """Rank the same index otherwise."""
    whole = pro.pipeline.models
    return replace(
        pro.pipeline,
        settings=settings(**changed),
        models=whole if late else replace(whole, late=None),
    )


def by_hand(pro: Collection, rows: list[int]) -> tuple[list[float], list[float], list[float]]:
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


def test_as_specified_the_score_is_the_blend_of_the_formula_and_maxsim(pro: Collection) -> None:
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


def test_by_rank_the_score_is_the_share_of_the_largest_sum(pro: Collection) -> None:
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


def test_the_stages_used_are_those_that_ran(pro: Collection) -> None:
    assert pro.pipeline.rank(QUERY).stages_used == ("bm25", "semantic", "colbert")
    assert pipeline(pro, late=False).rank(QUERY).stages_used == ("bm25", "semantic")
    assert pro.pipeline.rank("zzz the a").stages_used == ("bm25",)
    alone = replace(pro.pipeline, models=models.Models(None, None, None, ()))
    ranked = alone.rank(QUERY)
    assert ranked.stages_used == ("bm25",)
    assert ranked.rows.tolist() == alone.recall.search(QUERY, 500).tolist()
    assert (np.diff(ranked.scores) < 0).all()


def test_no_stage_adds_a_chunk_that_recall_did_not_find(pro: Collection) -> None:
    assert set(pro.pipeline.rank(QUERY).rows) <= set(pro.pipeline.recall.search(QUERY, 500))


def test_stage_2_keeps_100_of_the_500(pro: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ranking.RECALLED, ranking.RANKED) == (500, 100)
    monkeypatch.setattr(ranking, "RECALLED", 6)
    monkeypatch.setattr(ranking, "RANKED", 3)
    ranked = pro.pipeline.rank(QUERY)
    assert len(ranked.rows) == 3
    assert set(ranked.rows) <= set(pro.pipeline.recall.search(QUERY, 6))


def test_equal_chunks_come_by_id_at_every_stage(pro: Collection) -> None:
    for one in (pro.pipeline, pipeline(pro, late=False)):
        rows = one.rank("very same words copy").rows[:2].tolist()
        ids = [pro.library.chunks[row].provenance.chunk_id for row in rows]
        assert ids == ["twin-a#000000", "twin-b#000000"]


@pytest.mark.parametrize("gone", ["E1", "E6"])
def test_a_model_that_is_missing_is_named_and_its_stages_are_left_out(
    gone: str, cache: Path, pro: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object) -> None:
        raise ModelNotReady("the package is not installed")

    monkeypatch.setattr(models, "embedder_of" if gone == "E1" else "encoder_of", absent)
    with collection.opened(cache / "pro", settings(), "Small") as opened:
        left = opened.pipeline.models
    assert {one.part for one in left.missing} == ({"E1", "E12"} if gone == "E1" else {"E6"})
    assert all(one.reason == "MODEL_NOT_READY" and one.why for one in left.missing)
    used = replace(pro.pipeline, models=left).rank(QUERY).stages_used
    assert used == (("bm25", "semantic") if gone == "E1" else ("bm25", "semantic", "colbert"))


def test_without_any_model_the_words_still_answer(
    cache: Path, pro: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object) -> None:
        raise ModelNotReady("the packages are not installed")

    monkeypatch.setattr(models, "embedder_of", absent)
    monkeypatch.setattr(models, "encoder_of", absent)
    with collection.opened(cache / "pro", settings(), "Small") as opened:
        left = opened.pipeline.models
    assert replace(pro.pipeline, models=left).rank(QUERY).stages_used == ("bm25",)
    assert len(left.missing) == 3


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


def test_what_a_model_has_not_read_to_the_end_is_missing(cache: Path, pro: Collection) -> None:
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
