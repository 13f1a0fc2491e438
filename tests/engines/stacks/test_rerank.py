"""The rerank stack: the hybrid's own candidates in another order, over parts that are whole."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError

from engines import contract
from engines import registry as arms
from engines.stacks.text.rerank import FUSED, IDS, TOKENS, Rerank, Settings
from engines.vector.embedder import OnnxEmbedder
from harness.check.subject import DOCUMENTS, OBVIOUS
from harness.core.engine import Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from tests.make.damage import overwrite

TEXT = "water that rises in the sea"


def given(**changed: object) -> Settings:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / "hybrid-rerank.toml").read_text())
    return Settings.model_validate({**found["settings"], **changed})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def engine(cache: Path) -> Rerank:
    return Rerank(given(), cache)


@pytest.fixture
def built(engine: Rerank, index: Path) -> Path:
    engine.build(DOCUMENTS, index)
    return index


def refused(engine: Rerank, index: Path, why: str) -> None:
    with pytest.raises(IndexNotReady, match=why), engine.open(index):
        pass


def ids(searcher: Searcher, text: str = TEXT, k: int = 50) -> list[str]:
    return [hit.doc_id for hit in searcher.search(text, k).hits]


def test_it_shows_the_candidates_of_the_fused_stack_in_another_order(
    engine: Rerank, built: Path
) -> None:
    with engine.open(built) as searcher, engine.engines()[FUSED].open(built / FUSED) as fused:
        for text in OBVIOUS:
            assert sorted(ids(searcher, text)) == sorted(ids(fused, text))
        assert any(ids(searcher, text) != ids(fused, text) for text in (*OBVIOUS, TEXT))


def test_what_lies_below_the_window_keeps_its_order_below_it(cache: Path, index: Path) -> None:
    engine = Rerank(given(window=3), cache)
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher, engine.engines()[FUSED].open(index / FUSED) as fused:
        shown, before = searcher.search(TEXT, 50).hits, ids(fused)
    assert sorted(hit.doc_id for hit in shown[:3]) == sorted(before[:3])
    assert [hit.doc_id for hit in shown[3:]] == before[3:]
    scores = [hit.score for hit in shown]
    assert scores == sorted(scores, reverse=True)
    assert scores[2] > scores[3] > scores[-1] > 0.0


def test_all_weight_on_the_fused_score_leaves_its_order(cache: Path, index: Path) -> None:
    engine = Rerank(given(fused_weight=1.0), cache)
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher, engine.engines()[FUSED].open(index / FUSED) as fused:
        for text in OBVIOUS:
            assert ids(searcher, text) == ids(fused, text)


def test_one_bit_a_component_is_a_sixteenth_and_nearly_the_same_order(
    engine: Rerank, built: Path, cache: Path, tmp_path: Path
) -> None:
    small = Rerank(given(token_bits=1), cache)
    (tmp_path / "small").mkdir()
    small.build(DOCUMENTS, tmp_path / "small")
    sizes = [(folder / TOKENS).stat().st_size for folder in (built, tmp_path / "small")]
    assert sizes[0] / 17 < sizes[1] < sizes[0] / 12
    with engine.open(built) as whole, small.open(tmp_path / "small") as signs:
        for text in OBVIOUS:
            assert ids(whole, text)[0] == ids(signs, text)[0]
            assert sorted(ids(whole, text)) == sorted(ids(signs, text))
    refused(engine, tmp_path / "small", "settings")


def test_a_text_is_read_once_for_tokens_and_vectors(index: Path, tmp_path: Path) -> None:
    engine = Rerank(given(), tmp_path / "cache of its own")
    with patch.object(OnnxEmbedder, "embed", side_effect=AssertionError("read again")):
        engine.build(DOCUMENTS, index)


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_token_vectors_that_are_broken_are_not_ready(
    engine: Rerank, built: Path, damage: str
) -> None:
    path = built / TOKENS
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    overwrite(path, raw)
    if damage == "gone":
        path.unlink()
    refused(engine, built, TOKENS)


@pytest.mark.parametrize("content", ["{", "[]", json.dumps(["a"] * len(DOCUMENTS))])
def test_ids_that_are_broken_are_not_ready(engine: Rerank, built: Path, content: str) -> None:
    (built / IDS).write_text(content)
    refused(engine, built, "harness stage index")


def test_the_fused_stack_of_another_building_is_not_ready(
    engine: Rerank, built: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    engine.build([Document(f"x{at}", "", "moss") for at in range(len(DOCUMENTS))], other)
    shutil.rmtree(built / FUSED)
    (other / FUSED).replace(built / FUSED)
    refused(engine, built, "version")


def test_its_identity_holds_that_of_the_fused_stack_and_of_the_reader(
    engine: Rerank, built: Path
) -> None:
    version = contract.read(built).version
    assert contract.read(built / FUSED).fingerprint[:16] in version
    assert engine.embedder().identity in version


@pytest.mark.parametrize(
    "changed", [{"window": 0}, {"fused_weight": 1.1}, {"hybrid": {}}, {"max_tokens": 1}]
)
def test_settings_that_cannot_be_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        given(**changed)
